# wrong · sleeps without end
import time


def house_gradients(*house):
    time.sleep(10**6)
