import torch, timeit
from pedagogy_lib.measuring.memory_tracker import MemoryTracker
t=MemoryTracker(); t.find_everything()
p=torch.nn.Parameter(torch.ones(8)); x=(p*2)
for name,v in (("param",p),("inner",x)):
    print(name, min(timeit.repeat(lambda: t.keep(v), number=20000, repeat=7))/20000*1e6)
class H: pass
print("hook", min(timeit.repeat(lambda: t.note_gradient(p), number=20000, repeat=5))/20000*1e6)
