"""Planned faults that a rank triggers when one of its blocks begins."""

import contextlib
import json
import os
import socket
import threading
from collections import Counter


class FaultTrigger:
    """A counter of block starts, which asks for the planned faults before the block begins.

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
    """Ask the switch to do something; the call does not return if that ends the own machine.

    door     the path of the switch's socket
    Returns  the switch's answer
    """
    with socket.socket(socket.AF_UNIX) as visit, short_path(door) as path:
        visit.connect(path)
        with visit.makefile("rw") as line:
            print(json.dumps([name, *arguments]), file=line, flush=True)
            return json.loads(line.readline() or "{}").get("ok")


@contextlib.contextmanager
def short_path(path):
    """Yield a short path to the same place, as a Unix socket's path has at most 107 characters."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
