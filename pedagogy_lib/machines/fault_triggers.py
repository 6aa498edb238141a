"""In a rank: what a plan foresees for the moment at which a block begins."""

import contextlib
import json
import os
import socket
import threading
from collections import Counter


class FaultTrigger:
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
        name, arguments = wish
        ask_switch(self.door, name, *arguments)


def ask_switch(door, name, *arguments):
    """Have the switch do something; who wishes for the own machine's end does not return.

    door     the path of the switch's socket
    Returns  its answer
    """
    with socket.socket(socket.AF_UNIX) as visit, short_path(door) as path:
        visit.connect(path)
        with visit.makefile("rw") as line:
            print(json.dumps([name, *arguments]), file=line, flush=True)
            return json.loads(line.readline() or "{}").get("ok")


@contextlib.contextmanager
def short_path(path):
    """Another path to the same place: that of a Unix socket has at most 107 characters."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
