# wrong · the beginning of a message, and then silence
import os
import time


def house_gradients(*house):
    for fd in range(3, 64):
        try:
            os.write(fd, b'{"value": [')
        except OSError:
            pass
    time.sleep(10**6)
