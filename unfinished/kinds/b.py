import torch
from torch.autograd.graph import saved_tensors_hooks
A=torch._C._autograd
top=A._top_saved_tensors_default_hooks
with saved_tensors_hooks(lambda x:(print("pack"),x)[1], lambda x:x):
    A._saved_tensors_hooks_disable("m", False)
    print("disabled top", top(True), A._saved_tensors_hooks_is_enabled())
    x=torch.ones(3,requires_grad=True); x.exp()
    A._saved_tensors_hooks_enable()
    x.exp()
    print(help(A._saved_tensors_hooks_disable))
print(A._get_sequence_nr() if hasattr(A,"_get_sequence_nr") else None, type(A._saved_tensors_hooks_disable))
t = torch.Tensor._make_wrapper_subclass(torch.Tensor, (3,), dtype=torch.float32)
s=t.untyped_storage(); print(s.nbytes(), s.device)
try: print(s.data_ptr())
except Exception as e: print(e)
n=torch.nested.nested_tensor([torch.ones(2),torch.ones(3)])
print(n.layout, n.is_nested, n.untyped_storage().nbytes(), n.nbytes)
print(torch._C._functorch.is_functorch_wrapped_tensor(t))
import timeit
print(timeit.timeit("f()", globals=dict(f=torch._C._len_torch_function_stack), number=1000000), timeit.timeit("f()", globals=dict(f=torch._C._len_torch_dispatch_stack), number=1000000))
print(timeit.timeit("with f(): pass", globals=dict(f=torch._C.DisableTorchFunction), number=1000000))
class E(torch.autograd.Function):
    @staticmethod
    def forward(ctx,x): 
        y=x.exp(); ctx.save_for_backward(x,y); return y
    @staticmethod
    def backward(ctx,g): return g
with saved_tensors_hooks(lambda x:("packed",x.detach(), x.grad_fn), lambda x:x[1]):
    y=E.apply(x)
print(y.grad_fn._raw_saved_tensors, [s.data for s in y.grad_fn._raw_saved_tensors], y.grad_fn)
z=E.apply(x); print([s.data for s in z.grad_fn._raw_saved_tensors])
