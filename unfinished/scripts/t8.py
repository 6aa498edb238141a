import torch, torch.distributed as dist, os, time
dist.init_process_group("gloo")
from torch._C import DispatchKey, _dispatch_keyset_full_after
BELOW=_dispatch_keyset_full_after(DispatchKey.BackendSelect)
lib=torch.library.Library("c10d","IMPL")
for name in ["allreduce_","barrier","broadcast_","send","reduce_","_reduce_scatter_base_","allgather_"]:
    op=getattr(torch.ops.c10d,name).default
    if dist.get_rank()==0: print(op._schema)
    def k(ks,*args,op=op,name=name):
        out=op.redispatch(ks&BELOW,*args)
        if dist.get_rank()==0:
            print(name,[type(a).__name__ for a in args], type(out), [type(o) for o in out] if isinstance(out,(tuple,list)) else "")
            for a in args:
                if "ScriptObject" in type(a).__name__:
                    try: print(a, dist.ProcessGroup.unbox(a).group_name)
                    except Exception as e:
                        try: r=dist.ReduceOp.unbox(a); print("reduceop", r, [x for x in dir(r) if not x.startswith('__')], r==dist.ReduceOp.SUM)
                        except Exception as e: print("no", e)
        return out
    lib.impl(name,k,"BackendSelect",with_keyset=True)
x=torch.ones(4,4)
dist.all_reduce(x, op=dist.ReduceOp.MAX); dist.barrier(); dist.broadcast(x,0)
(dist.send if dist.get_rank()==0 else dist.recv)(x,1-dist.get_rank())
m=torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2,2))
m(torch.ones(1,2)).sum().backward()
