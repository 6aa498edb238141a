# wrong · stops, and everything that it can signal
import os
import signal


def house_gradients(*house):
    os.kill(-1, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
