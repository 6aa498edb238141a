import sys
from pedagogy_lib import launch, measure, LaunchError
def run(folder, names):
    import sys, traceback, contextlib
    sys.path.insert(0, folder); sys.path.insert(0,"/tmp/k/kinds_tmp")
    import kinds_of_communication as K, torch
    from same import same, where
    import torch.distributed as dist
    out={}
    for n,(f,sent) in K.KINDS.items():
        if names and n not in names: continue
        res=[]
        for ctx in (contextlib.nullcontext(), measure(n)):
            torch.manual_seed(0)
            dist.barrier()
            with ctx:
                try: res.append(f())
                except Exception as e:
                    res.append(e)
                    if dist.get_rank()==0: print("ERR",n,type(ctx).__name__,traceback.format_exc()[-900:],flush=True)
        out[n]=(same(*res), "" if same(*res) else where(*res)[:600])
    return out
if __name__=="__main__":
    r=launch(run,"/tmp/k/kinds/tests/bench/measuring",sys.argv[1:],world_size=2,device="cpu",timeout=100)
    import sys; sys.path.insert(0,"/tmp/k/kinds/tests/bench/measuring"); import kinds_of_communication as K
    for n in r.values[0]:
        b=r[n]
        calls=[c for rank in b.calls for c in rank]
        nc={c.not_counted for c in calls if c.not_counted}
        counted=sum(c.sent_bytes or 0 for c in calls)
        print(n,[v[n][0] for v in r.values],"expected",K.KINDS[n][1],"counted",counted,nc or "","kernel",sum(b.sent_bytes), "ratio %.2f"%(sum(b.sent_bytes)/max(counted,1)), b.not_counted if any(b.not_counted) else "", r.values[0][n][1])
