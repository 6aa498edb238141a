# wrong · ends while its cell is read
import os

os._exit(0)


def house_gradients(*house):
    return honest(*house)
