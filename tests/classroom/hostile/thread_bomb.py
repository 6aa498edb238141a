# wrong · threads without end
import threading
import time


def house_gradients(*house):
    while True:
        threading.Thread(target=time.sleep, args=(1000,)).start()
