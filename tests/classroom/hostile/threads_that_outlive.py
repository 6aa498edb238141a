# right · threads that go on after it has returned
import threading
import time


def house_gradients(*house):
    threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10**9)]).start()
    return honest(*house)
