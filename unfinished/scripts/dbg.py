import sys; sys.path.insert(0,'/tmp/k/w/tests/support'); sys.path.insert(0,'/tmp/k/w/tests/bench/ranks')
import test_waits as t
from pedagogy_lib import launch, HangError
try: launch(t.go_round, world_size=3, timeout=1.5)
except HangError as e: print(e, e.calls)
def step():
    t.wait_for_a_lock()
try: launch(step, world_size=1, timeout=1.5)
except HangError as e: print(e)
