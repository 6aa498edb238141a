import torch
from torch.autograd.graph import saved_tensors_hooks
class E(torch.autograd.Function):
    @staticmethod
    def forward(ctx,x,n): 
        y=x.exp(); ctx.save_for_backward(x,n,y); return y
    @staticmethod
    def backward(ctx,g): return g,None
x=torch.ones(3,requires_grad=True)
with saved_tensors_hooks(lambda x:("packed",x.detach(), x.grad_fn), lambda x:x[1]):
    y=E.apply(x,None)
print(y.grad_fn._raw_saved_tensors, [s and s.data for s in y.grad_fn._raw_saved_tensors], y.grad_fn)
z=E.apply(x, None); print([s and s.data for s in z.grad_fn._raw_saved_tensors])
print(torch._C._FunctionBase.saved_tensors.__get__(z.grad_fn))
z.sum().backward()
try: print(z.grad_fn._raw_saved_tensors)
except Exception as e: print(repr(e))
print(hasattr(torch._C._FunctionBase, "saved_tensors"), type(torch._C._FunctionBase.saved_tensors))
class Wr(torch.Tensor):
    @staticmethod
    def __new__(cls, a): return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): print(func)
t=Wr(torch.ones(3)); s=t.untyped_storage(); print(s.nbytes(), s.device)
try: print(s.data_ptr())
except Exception as e: print(e)
n=torch.nested.nested_tensor([torch.ones(2),torch.ones(3)])
print(n.layout, n.is_nested, n.untyped_storage().nbytes()); 
try: print(n.nbytes)
except Exception as e: print(e)
q=torch.quantize_per_tensor(torch.ones(3),.1,3,torch.qint8); print(q.layout,q.untyped_storage().nbytes(), q.nbytes)
m=torch.ones(3).to_mkldnn(); print(m.layout); 
try: print(m.nbytes)
except Exception as e: print(e)
c=torch.eye(3).to_sparse_csr().requires_grad_()
try: print(c.nbytes)
except Exception as e: print(e)
