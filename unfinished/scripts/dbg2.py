import threading,sys,time
sys.path.insert(0,'/tmp/k/w')
from pedagogy_lib.ranks import waiting_calls as w
def f():
    lock=threading.Lock(); lock.acquire()
    with lock: pass
t=threading.Thread(target=f,daemon=True); t.start(); time.sleep(.3)
fr=sys._current_frames()[t.ident]
print(repr(w.text_of_call(fr)), fr.f_lasti, list(fr.f_code.co_positions())[fr.f_lasti//2])
import ast
n=ast.parse("lock",mode="eval").body
l=w.look_up(n,fr); print(l, w.wait_of_object(l,None,""))
