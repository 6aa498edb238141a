# wrong · by the signal that nobody can catch
import os
import signal


def house_gradients(*house):
    os.kill(os.getpid(), signal.SIGKILL)
