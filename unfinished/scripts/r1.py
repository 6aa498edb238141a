import sys
from pedagogy_lib import run_torchrun, LaunchError
for args,kw in ([["--bad",1,"--how","exit0"],dict(timeout=5)],[["--bad",-1],dict(nproc_per_node=3)],[["--bad",2,"--how","_exit"],dict(nnodes=2)]):
    print("=====",args,kw)
    try:
        run=run_torchrun("/tmp/k/x/p1.py",*args,**kw); print(run.output)
    except LaunchError as e: print("-----",type(e),e)
