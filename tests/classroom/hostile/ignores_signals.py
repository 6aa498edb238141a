# wrong · refuses to end when asked
import signal
import time


def house_gradients(*house):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
