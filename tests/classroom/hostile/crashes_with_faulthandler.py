# wrong · a crash that writes its own report to every open file
import ctypes
import faulthandler
import os


def house_gradients(*house):
    for fd in range(3, 64):
        try:
            os.fstat(fd)
            faulthandler.enable(file=fd)
        except OSError:
            pass
    ctypes.string_at(0)
