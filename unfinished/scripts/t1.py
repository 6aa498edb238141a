import time, torch, torch.distributed as dist, os, sys, traceback
from torch.nn.parallel import DistributedDataParallel as DDP
log=[]
lib = torch.library.Library("c10d","IMPL")
import threading
OPS=["allreduce_","broadcast_","allgather_","_allgather_base_","_reduce_scatter_base_","send","recv_","barrier","reduce_","alltoall_base_"]
def make(name):
    op=getattr(torch.ops.c10d,name).default
    def kernel(*args):
        t=time.perf_counter()
        with torch._C._AutoDispatchBelowAutograd():
            out=op(*args)
        log.append((name,t,time.perf_counter(), threading.current_thread().name, sys._getframe(1).f_code.co_name if sys._getframe().f_back else None))
        return out
    return kernel
for n in OPS:
    try: lib.impl(n, make(n), "AutogradCPU")
    except Exception as e: print(n, e)
dist.init_process_group("gloo")
torch.set_num_threads(1)
x=torch.ones(1000)
dist.all_reduce(x); print(x[0])
m=DDP(torch.nn.Sequential(torch.nn.Linear(100,100),torch.nn.Linear(100,1)))
for i in range(3):
    m(torch.randn(4,100)).sum().backward()
dist.barrier()
with torch.no_grad(): dist.all_reduce(x)
with torch.inference_mode(): dist.all_reduce(x)
if dist.get_rank()==0:
    for l in log: print(l)
from torch.distributed.fsdp import fully_shard
log.clear()
m=torch.nn.Sequential(torch.nn.Linear(100,100),torch.nn.Linear(100,1))
fully_shard(m)
m(torch.randn(4,100)).sum().backward()
import torch.distributed._functional_collectives as fc
fc.wait_tensor(fc.all_reduce(x,"sum",dist.group.WORLD))
if dist.get_rank()==0:
    for l in log: print(l)
log.clear()
n=2000
t=time.perf_counter()
for i in range(n): dist.all_reduce(x)
if dist.get_rank()==0: print((time.perf_counter()-t)/n*1e6,"us per all_reduce", len(log))
dist.destroy_process_group()
