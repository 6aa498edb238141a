"""Seconds per operation, old and new in turns: each in a fresh process."""
import subprocess, sys, os, statistics
CODE='''
import torch, time, sys
from pedagogy_lib import launch, measure
def go(kind):
    torch.manual_seed(0)
    x=torch.ones(8,8); lay=torch.nn.Sequential(*[torch.nn.Linear(8,8) for _ in range(20)])
    opt=torch.optim.SGD(lay.parameters(), lr=.1)
    def ops():
        for _ in range(3000): x.add(1)
    def inplace():
        for _ in range(3000): x.add_(1)
    def train():
        for _ in range(30):
            lay(x).sum().backward(); opt.step(); opt.zero_grad()
    f=dict(ops=ops,inplace=inplace,train=train)[kind]
    f()
    best=[]
    for i in range(7):
        with measure(f"a{i}"):
            t=time.perf_counter(); f(); best.append(time.perf_counter()-t)
    best.sort(); return best[0], best[len(best)//2]
for kind in ("ops","inplace","train"):
    v=launch(go,kind,world_size=1,device="cpu").values[0]
    print(kind,*v)
'''
open("/tmp/k/kinds_tmp/cost_run.py","w").write(CODE)
roots={"old":"/tmp/k/kinds_tmp/base","new":"/tmp/k/kinds"}
res={}
for r in range(int(sys.argv[1])):
    for name in (list(roots) if r%2 else list(roots)[::-1]):
        out=subprocess.run([sys.executable,"/tmp/k/kinds_tmp/cost_run.py"],env={**os.environ,"PYTHONPATH":roots[name]},cwd=roots[name],capture_output=True,text=True)
        if out.returncode: print(out.stderr[-800:])
        for line in out.stdout.splitlines():
            k,b,m=line.split(); res.setdefault(k,{}).setdefault(name,[]).append(float(b))
N={"ops":3000,"inplace":3000,"train":1}
for k,v in res.items():
    med={n:statistics.median(t) for n,t in v.items()}
    print(k, {n:f"{m/N[k]*1e6:.2f} us" for n,m in med.items()}, "ratio of medians %.3f"%(med["new"]/med["old"]), "per round", ["%.2f"%(a/b) for a,b in zip(v["new"],v["old"])])
