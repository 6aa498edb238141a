"""Apply maps of new names with rope: python ren.py FOLDER MAP.json …; move labs/, solutions/ and notebooks/ aside first."""
import ast, json, sys, time, re, tokenize, io
from pathlib import Path
from rope.base.project import Project
from rope.refactor.rename import Rename
ROOT=Path(sys.argv[1]); maps=sys.argv[2:]
project=Project(str(ROOT), ropefolder=None, ignored_resources=[".venv","assets","reports",".git","__pycache__"], automatic_soa=False, save_objectdb=False)
entries=[]
for m in maps: entries+=[e for e in json.load(open(m)) if 'old' in e]
def find(path, q):
    tree=ast.parse((ROOT/path).read_text())
    parts=[p for p in re.split(r'\.', q.replace('.<local>','').replace('<local>.','')) if p and p!='<local>']
    def walk(node, parts):
        for n in ast.walk(node):
            if isinstance(n,(ast.FunctionDef,ast.ClassDef,ast.AsyncFunctionDef)) and n is not node and n.name==parts[0]:
                if len(parts)==1: return n
                r=walk(n,parts[1:])
                if r: return r
    return walk(tree,parts)
done=[];failed=[]
t0=time.time()
for e in entries:
    path=ROOT/e['file']
    if not path.exists(): failed.append((e,'no file')); continue
    n=find(e['file'],e['old'])
    if n is None: failed.append((e,'not found')); continue
    text=path.read_text(); lines=text.splitlines(keepends=True)
    line=n.lineno-1
    while not re.search(r'\b(def|class)\s+%s\b'%n.name, lines[line]): line+=1
    col=re.search(r'\b(?:def|class)\s+(%s)\b'%n.name, lines[line]).start(1)
    off=sum(map(len,lines[:line]))+col
    try:
        project.validate()
        ch=Rename(project, project.get_resource(e['file']), off).get_changes(e['new'], in_hierarchy=True)
        project.do(ch); done.append((e,len(ch.changes)))
    except Exception as x:
        failed.append((e,repr(x)[:120]))
    if len(done)%20==0: print(len(done),len(failed),f'{time.time()-t0:.0f} s',flush=True)
print('done',len(done)); 
for e,w in failed: print('FAILED',e['file'],e['old'],w)
