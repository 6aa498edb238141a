# wrong · LD_PRELOAD, PYTHONSTARTUP and the like for what starts next
import os


def house_gradients(*house):
    os.environ.update(
        LD_PRELOAD="/tmp/hostile.so",
        PYTHONPATH="/tmp",
        PYTHONSTARTUP="/tmp/x.py",
        PYTHONHOME="/tmp",
        TMPDIR="/nowhere",
        PATH="/tmp",
        PYTHONINSPECT="1",
    )
    open("/tmp/sitecustomize.py", "w").write("import os; os._exit(0)")
    return [0.0, 0.0, 0.0]
