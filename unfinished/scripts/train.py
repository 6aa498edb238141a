import torch, torch.distributed as dist, time
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
dist.init_process_group("gloo")
torch.manual_seed(0)
m=DDP(torch.nn.Sequential(torch.nn.Linear(256,1024),torch.nn.ReLU(),torch.nn.Linear(1024,1024),torch.nn.ReLU(),torch.nn.Linear(1024,10)))
data=TensorDataset(torch.randn(4096,256),torch.randint(0,10,(4096,)))
s=DistributedSampler(data); dl=DataLoader(data,batch_size=128,sampler=s)
o=torch.optim.AdamW(m.parameters(),lr=1e-3)
t=time.perf_counter(); n=0
for e in range(3):
    for x,y in dl:
        o.zero_grad(); l=torch.nn.functional.cross_entropy(m(x),y); l.backward(); o.step(); n+=1
if dist.get_rank()==0: print("ms per step", (time.perf_counter()-t)/n*1e3, n)
torch.save(m.state_dict(),"/tmp/k/x/m.pt")
dist.destroy_process_group()
