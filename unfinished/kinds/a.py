import torch
def pack(t): print("pack", t.is_leaf, t.requires_grad, type(t), t._base is None, t._is_view()); return t
def unpack(t): return t
print(torch._C._autograd._top_saved_tensors_default_hooks(True))
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    print(top, top[0] is pack)
    p = torch.nn.Parameter(torch.ones(3))
    x = (p*p).exp()
    y = x*x
class Sub(torch.Tensor):
    @staticmethod
    def __new__(cls, a): return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, requires_grad=a.requires_grad)
    def __init__(self, a): self.a = a
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        print("  sub", func)
        un = lambda t: t.a if isinstance(t, Sub) else t
        return Sub(func(*map(un, args), **(kwargs or {})))
s = Sub(torch.ones(3)).requires_grad_()
print("no hooks"); (s*s).exp()
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    print("hooks"); (s*s).exp()
