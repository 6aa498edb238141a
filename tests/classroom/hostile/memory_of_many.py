# wrong · takes all memory with many processes
import os
import time


def house_gradients(*house):
    for _ in range(40):
        if os.fork() == 0:
            held = bytearray(b"x") * (300 * 2**20)
            time.sleep(1000)
            os._exit(len(held))
    time.sleep(1000)
