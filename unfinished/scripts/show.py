import sys; sys.path.insert(0,'/tmp/k/w')
from pedagogy_lib.programs.trace import read_events
from collections import Counter
ev=read_events(sys.argv[1] if len(sys.argv)>1 else "/tmp/k/x/wf/0.trace")
print(len(ev), Counter(e[0] for e in ev))
seen=Counter()
for e in ev:
    seen[e[0]]+=1
    if seen[e[0]]<=(6 if len(sys.argv)<3 else int(sys.argv[2])): print(str(e)[:230])
print([e for e in ev if e[0]=="cost"][-1:])
