# wrong · a crash in C
import ctypes


def house_gradients(*house):
    ctypes.string_at(0)
