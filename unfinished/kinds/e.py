import torch, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0,"/tmp/k/kinds/tests/bench/measuring")
torch.set_num_threads(1)
import kinds_of_code as K
def scr():
    torch.manual_seed(0)
    m=torch.jit.script(K.layers()); out=[]
    for i in range(3):
        m.zero_grad(); out.append([g.clone() for g in K.gradients(m, m(torch.ones(2,4)).sum())])
    return out
a,b=scr(),scr()
print([[torch.equal(x,y) for x,y in zip(p,q)] for p,q in zip(a,b)])
print([[torch.equal(x,y) for x,y in zip(a[0],q)] for q in a])
from pedagogy_lib.basics.quiet_modes import QuietMode
class M(QuietMode):
    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {}))
with M(): c=scr()
print([[torch.equal(x,y) for x,y in zip(p,q)] for p,q in zip(a,c)])
from torch.utils._python_dispatch import TorchDispatchMode
class Q(TorchDispatchMode):
    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {}))
with Q(): c=scr()
print([[torch.equal(x,y) for x,y in zip(p,q)] for p,q in zip(a,c)])
from torch.autograd.graph import saved_tensors_hooks
with saved_tensors_hooks(lambda x:x, lambda x:x): c=scr()
print([[torch.equal(x,y) for x,y in zip(p,q)] for p,q in zip(a,c)])
torch.manual_seed(0); m=K.layers(); e=K.gradients(m, m(torch.ones(2,4)).sum())
print([[torch.equal(x,y) for x,y in zip(p,e)] for p in a], [[torch.equal(x,y) for x,y in zip(p,e)] for p in c])
with M():
    torch.manual_seed(0); m=K.layers(); f=K.gradients(m, m(torch.ones(2,4)).sum())
print([torch.equal(x,y) for x,y in zip(f,e)])
