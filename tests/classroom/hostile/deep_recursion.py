# wrong · recursion without end, without Python's limit
import sys


def house_gradients(*house):
    sys.setrecursionlimit(10**9)
    return house_gradients(*house)
