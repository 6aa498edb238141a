# wrong · opens files without end, and makes folders within folders
import os


def house_gradients(*house):
    os.chdir("/tmp")
    for _ in range(3000):
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
    return [os.open("/tmp", os.O_RDONLY) for _ in range(10**6)]
