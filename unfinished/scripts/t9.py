import torch, torch.distributed as dist, os, time, sys
dist.init_process_group("gloo")
if len(sys.argv)>1:
    from torch._C import DispatchKey, _dispatch_keyset_full_after
    BELOW=_dispatch_keyset_full_after(DispatchKey.BackendSelect)
    lib=torch.library.Library("c10d","IMPL")
    for name in ["allreduce_","barrier","broadcast_","send","reduce_","_reduce_scatter_base_","allgather_"]:
        op=getattr(torch.ops.c10d,name).default
        def k(ks,*args,op=op,name=name): return op.redispatch(ks&BELOW,*args)
        lib.impl(name,k,"BackendSelect",with_keyset=True)
x=torch.ones(4,4)
m=torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2,2))
m(torch.ones(1,2)).sum().backward()
