# wrong · files in memory that nobody has mapped
import os


def house_gradients(*house):
    held = []
    while True:
        held.append(os.memfd_create("x"))
        for _ in range(120):
            os.write(held[-1], b"x" * 2**22)
