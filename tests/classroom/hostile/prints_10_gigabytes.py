# wrong · prints without end
import os


def house_gradients(*house):
    for _ in range(10_000):
        os.write(1, b"x" * 2**20)
        os.write(2, b"y" * 2**20)
    while True:
        print("z" * 2**20)
