"""A watcher that looks at a sandbox's memory a few times a second, and ends it above its limit."""

import threading

import psutil

from .processes import list_descendants, memory_bytes

LOOK_SECONDS = 0.4
LEAST_FREE = 256 * 2**20  # of the machine's memory, which also includes what no process has mapped


class Watcher:
    """A thread that watches a sandbox; `fault` is why it has ended the sandbox, or empty."""

    def __init__(self, pid, limits, end):
        self.pid, self.limits, self.end = pid, limits, end
        self.fault, self.over = "", threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.over.wait(LOOK_SECONDS):
            self.fault = self.find_fault()
            if self.fault:
                self.end()
                return

    def find_fault(self) -> str:
        most = self.limits.memory_bytes
        if psutil.virtual_memory().available < LEAST_FREE:
            return "the machine's memory was nearly full, and this code was running"
        if memory_bytes(list_descendants(self.pid), most) > most:
            return f"it took more memory than the {most / 2**20:,.0f} MB that it may have"
        return ""

    def close(self):
        self.over.set()
        if self.thread is not threading.current_thread():
            self.thread.join()
