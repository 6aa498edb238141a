"""Names of functions and classes that begin with a preposition or a participle."""
import ast,sys,collections
from pathlib import Path
root=Path(sys.argv[1]) if len(sys.argv)>1 else Path('.')
PREP=set("of in as by on at to from with without for into over under above below between before after through across along around inside outside behind beside next_to beyond during until since per than upon within against among onto off out up down like near".split())
names=collections.defaultdict(set)
rooms=['pedagogy_lib','coursekit','classroom','chapters','tests','tools','book','benchmarks']
for r in rooms:
    for p in (root/r).rglob('*.py'):
        if 'content' in p.parts and r=='coursekit': continue
        try: t=ast.parse(p.read_text())
        except SyntaxError:
            continue
        for n in ast.walk(t):
            if isinstance(n,(ast.FunctionDef,ast.ClassDef,ast.AsyncFunctionDef)):
                names[n.name].add((r,str(p)))
IRR=set("told kept found said seen made given taken shown drawn gone held built written done sent lost known thrown read spoilt bought brought caught chosen cut dealt driven drawn eaten fallen felt fought got grown heard hidden hit hurt laid led left lent let lit meant met paid put run sat set shut slept sold spent split spoken stolen struck stuck swum taught thought torn understood woken won worn wound".split())
def bad(n):
    w=n.strip('_').split('_')[0]
    import re
    if n.startswith('test_'): return None
    w2=re.sub(r'(?<=[a-z])(?=[A-Z]).*','',n).lower() if n[0].isupper() else w
    if w2 in PREP: return 'prep'
    if w2 in IRR-{'read','cut','split','set','run','put','let','hit','shut'} : return 'part'
    if (w2.endswith('ed') and w2 not in ('need','feed','seed','speed','embed','exceed','shed','bed','red','embedded')) or (w2.endswith('ing') and w2 not in ('ring','string','king','ping','bring','sing','thing','padding','training','setting')): return 'part'
    return False
tests=[n for n in names if n.startswith('test_')]
other=[n for n in names if not n.startswith('test_')]
b={n:bad(n) for n in other if bad(n)}
print(len(names),'names,',len(other),'without tests; bad',len(b),f'{100*len(b)/len(other):.1f} % of these, {100*len(b)/len(names):.1f} % of all')
for r in rooms:
    mine={n for n in other if any(x[0]==r for x in names[n])}
    print(r,len(mine),len([n for n in mine if n in b]))
if len(sys.argv)>2:
    for n in sorted(b): print(n, b[n], sorted({x[0] for x in names[n]}), len(names[n]))
