"""The output of a sandbox: its beginning is kept, and the rest is read and discarded."""

import os
import threading

PIECE = 2**16


class Output:
    """A reader of a pipe, which reads until the pipe closes."""

    def __init__(self, fd, most_bytes):
        self.fd, self.most, self.lock = fd, most_bytes, threading.Lock()
        self.kept, self.lost = bytearray(), 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while piece := os.read(self.fd, PIECE):
            with self.lock:
                room = max(0, self.most - len(self.kept))
                self.kept += piece[:room]
                self.lost += len(piece) - min(room, len(piece))
        os.close(self.fd)

    def take_text(self) -> str:
        """Return what has arrived since the last call."""
        with self.lock:
            text = self.text()
            self.kept.clear()
            self.lost = 0
        return text

    def text(self) -> str:
        kept, lost = bytes(self.kept), self.lost
        more = f"\n… and {lost:,} bytes more, which are not kept" if lost else ""
        return kept.decode(errors="replace") + more
