from pedagogy_lib import run_torchrun
print(run_torchrun("omp.py",nproc_per_node=1).output)
