"""In a rank: what a plan foresees for the moment at which a block begins."""

import json
import socket
import threading
from collections import Counter


class AtBlocks:
    """Counts how often blocks begin, and wishes for what is planned, before the block begins.

    planned  [(label, nth, name, arguments), …] for this rank
    door     the path of the switch's socket
    """

    def __init__(self, planned, door):
        self.planned, self.door = planned, door
        self.begun, self.lock = Counter(), threading.Lock()

    def __call__(self, label):
        with self.lock:
            self.begun[label] += 1
            nth = self.begun[label]
        for at, count, *wish in self.planned:
            if (at, count) == (label, nth):
                self.ask(wish)

    def ask(self, wish):
        """Returns once it is done; who wishes for the own machine's end does not return."""
        with socket.socket(socket.AF_UNIX) as visit:
            visit.connect(self.door)
            with visit.makefile("rw") as line:
                name, arguments = wish
                print(json.dumps([name, *arguments]), file=line, flush=True)
                line.readline()
