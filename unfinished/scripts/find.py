import sys; sys.path.insert(0,'/tmp/k/w')
from pedagogy_lib.programs.rank_trace import ProgramTrace
from pedagogy_lib.programs.watch_folder import WatchFolder
from pedagogy_lib.programs.findings import find_all
from pedagogy_lib.programs.step_times import *
p=ProgramTrace.read(WatchFolder(sys.argv[1] if len(sys.argv)>1 else "/tmp/k/x/wf"))
print(len(p),p.steps,p.averaging_groups)
for one in p: print(one.rank,{k:round(v*1e3,2) for k,v in typical_step(one,p.steps).items()}, hidden_share(one,p.steps), "cost",round(one.cost*1e3/max(1,p.steps),2))
print({k:round(v*1e3,2) for k,v in find_lateness(p).items()})
for f in find_all(p): print("*",f.kind,f.name,f)
