. /tmp/k/env.sh; cd /tmp/k/x
rm -rf /tmp/k/x/wf; mkdir -p /tmp/k/x/wf; touch /tmp/k/x/wf/traced
OMP_NUM_THREADS=1 timeout 100 torchrun --nproc-per-node ${N:-2} /tmp/k/w/pedagogy_lib/programs/entry.py /tmp/k/x/wf "$@" 2>&1 | tail -30
ls -la /tmp/k/x/wf
