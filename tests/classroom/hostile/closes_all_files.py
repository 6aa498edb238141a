# wrong · closes every open file
import os


def house_gradients(*house):
    os.closerange(0, 1024)
    return honest(*house)[:2]
