import time, torch, torch.distributed as dist, os, json
from torch._C import _distributed_c10d as c
dist.init_process_group("gloo")
y=torch.ones(10)
def timing(n=1000):
    t=time.perf_counter()
    for i in range(n): dist.all_reduce(y)
    return (time.perf_counter()-t)/n*1e6
r=[timing() for i in range(5)]
g=dist.new_group([0,1]); dist.all_reduce(y,group=g)
if dist.get_rank()==0: dist.send(y,1)
else: dist.recv(y,0)
t=time.perf_counter(); d=json.loads(c._dump_fr_trace_json()); t=time.perf_counter()-t
if dist.get_rank()==0:
    e=d.get('entries',[])
    print("dump",t, min(r), len(e)); print([(x['process_group'],x['collective_seq_id'],x['p2p_seq_id'],x['op_id'],x['profiling_name'],x['retired']) for x in e[-4:]], d.get('pg_config'), d.get('pg_status'))
dist.destroy_process_group()
