import sys
from pedagogy_lib import launch, measure
FOLDER="/tmp/k/kinds/tests/bench/measuring"
def run(folder, names=None):
    import sys, time, traceback, inspect
    sys.path.insert(0, folder); sys.path.insert(0,"/tmp/k/kinds_tmp")
    import kinds_of_code as K, contextlib, torch
    from same import same, where
    def attempt(f, block):
        torch.manual_seed(0)
        try:
            if inspect.signature(f).parameters: return f(block)
            with block(): return f()
        except Exception as e:
            e.tb = traceback.format_exc(); return e
    out = []
    for n, f in K.KINDS.items():
        if names and n not in names: continue
        t=time.perf_counter()
        a = attempt(f, contextlib.nullcontext); t1=time.perf_counter()
        b = attempt(f, lambda: measure(n)); t2=time.perf_counter()
        ok = same(a,b)
        msg = n + (" ok" if ok else " DIFFERS") + f" {t1-t:.2f} {t2-t1:.2f}"
        if isinstance(a, Exception): msg += f" outside: {type(a).__name__} {str(a)[:150]}"
        if not ok: msg += "\n   WHERE "+where(a,b)+ ("\n"+b.tb[-2500:] if isinstance(b,Exception) else "")
        if isinstance(a, Exception) and names: msg += a.tb
        out.append(msg)
        print(msg.splitlines()[0], flush=True)
    return "\n".join(out)
if __name__=="__main__":
    r = launch(run, FOLDER, sys.argv[1:], world_size=1, device="cpu", timeout=200)
    print("\n".join(l for l in r.values[0].split("\n") ))
    for l in r.labels:
        if r[l].not_counted[0]: print(l, "NOT COUNTED", r[l].not_counted[0][:6])
