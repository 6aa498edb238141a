import torch
def same(a, b):
    if isinstance(a, torch.Tensor):
        if not isinstance(b, torch.Tensor) or type(a) is not type(b): return False
        if a.layout is not torch.strided: a, b = a.to_dense(), b.to_dense()
        return a.dtype==b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)): return type(a) is type(b) and len(a)==len(b) and all(map(same,a,b))
    if isinstance(a, dict): return a.keys()==b.keys() and all(same(a[k],b[k]) for k in a)
    if isinstance(a, Exception): return type(a) is type(b) and str(a)==str(b)
    r = a==b
    return bool(r.all()) if hasattr(r,"all") else bool(r)
def where(a,b,path=""):
    if isinstance(a,(list,tuple)) and isinstance(b,(list,tuple)):
        if len(a)!=len(b): return path+f" len {len(a)} {len(b)}"
        for i,(x,y) in enumerate(zip(a,b)):
            if not same(x,y): return where(x,y,path+f"[{i}]")
    return path+f" {str(a)[:1500]} || {str(b)[:1500]}"
