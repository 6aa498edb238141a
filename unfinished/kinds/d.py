import torch
from torch import nn
class MyFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx,x):
        y=x*2; ctx.save_for_backward(y, x); return y
    @staticmethod
    def backward(ctx,g): ctx.saved_tensors; return g
def go(f):
    try: f()
    except RuntimeError as e: print(str(e)[100:330])
def a():
    x=torch.ones(3,requires_grad=True); y=MyFn.apply(x); 
    with torch.no_grad(): y.add_(1)
    y.sum().backward()
def b():
    x=torch.ones(3,3,requires_grad=True); y=nn.Linear(3,3)(x); z=y*y; y.add_(1); z.sum().backward()
def c():
    x=torch.ones(3,3,requires_grad=True); y=x*1; y[0].mul_(2); z=y.exp(); z2=z*z; z[0]=1; z2.sum().backward()
def d():
    x=torch.ones(3,3,requires_grad=True); z=x*x
    with torch.no_grad(): x.add_(1)
    z.sum().backward()
def e():
    x=torch.ones(3,3,requires_grad=True); y=x*1; y[0].mul_(2);z2=y*y; y[0]=1; z2.sum().backward()
for f in (a,b,c,d,e): go(f)
with torch.autograd.detect_anomaly():
    go(a)
