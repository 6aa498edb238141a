import time, torch, torch.distributed as dist, os, sys, json
dist.init_process_group("gloo")
x=torch.ones(1000000)
dist.all_reduce(x)
w=dist.all_reduce(x,async_op=True)
print([n for n in dir(w)])
print(w.get_future())
w.wait()
dist.barrier()
from torch._C import _distributed_c10d as c
print([n for n in dir(c) if 'fr_' in n or 'hook' in n.lower() or 'dump' in n])
print(c.Work.unbox if hasattr(c.Work,'unbox') else 'no unbox')
d=json.loads(c._dump_fr_trace_json())
if dist.get_rank()==0: print(json.dumps(d['entries'][:2],indent=0)[:1500]); print(d.keys())
lib = torch.library.Library("c10d","IMPL")
ends=[]
op=torch.ops.c10d.allreduce_.default
below=torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
def k(ks,*args):
    out=op.redispatch(ks&below,*args)
    work=c.Work.unbox(out[1])
    t=time.perf_counter()
    work.get_future().add_done_callback(lambda f: ends.append((t,time.perf_counter())))
    return out
def timing(n=1000):
    t=time.perf_counter()
    for i in range(n): dist.all_reduce(y)
    return (time.perf_counter()-t)/n*1e6
y=torch.ones(10)
for i in range(3): a=timing()
lib.impl("allreduce_",k,"BackendSelect",with_keyset=True)
for i in range(3): b=timing()
if dist.get_rank()==0: print(a,b, ends[-1], len(ends))
dist.destroy_process_group()
