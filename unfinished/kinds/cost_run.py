
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
