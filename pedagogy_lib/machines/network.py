"""The notebook's side of the network: start the switch, wish for what is to change, end it."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from ..basics.errors import LaunchError
from .why_not import why_not

SCRIPT = Path(__file__).with_name("switch.py")
ANSWER_SECONDS = 20.0  # that it may take to set up all machines on a busy computer
END_SECONDS = 2.0


class Network:
    """A switch, and a number of machines at it; kept from launch to launch."""

    def __init__(self, count):
        self.count, self.owner, self.lock = count, os.getpid(), threading.Lock()
        self.is_whole = True
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(ANSWER_SECONDS)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, str(theirs.fileno()), str(count)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # the stop button signals the notebook's group only
            )
        self.line = self.socket.makefile("rw")
        try:
            paths = self.hear()
        except BaseException:
            self.close()
            raise
        self.user, self.networks = paths["user"], paths["networks"]

    def ask(self, *wish):
        """Wish for something; returns when it has been done. Raises LaunchError if it cannot be."""
        with self.lock:
            try:
                print(json.dumps(wish), file=self.line, flush=True)
                return self.hear()
            except (OSError, ValueError):
                raise LaunchError(f"the network of the machines has ended; {AGAIN}") from None

    def hear(self):
        said = self.line.readline()
        if not said:
            raise LaunchError(f"the network of the machines cannot be made: {self.last_words()}")
        answer = json.loads(said)
        if "refused" in answer:
            raise LaunchError(why_not(answer.get("errno")) or answer["refused"])
        return answer["ok"]

    def last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, said = self.process.communicate(timeout=END_SECONDS)
            return (said.decode(errors="replace").strip().splitlines() or ["it ended"])[-1]
        return "it does not answer"

    def usable(self, count) -> bool:
        lives = self.owner == os.getpid() and self.process.poll() is None
        return lives and self.is_whole and self.count == count

    def close(self):
        """Let it end; its machines, and what is left on them, end with it."""
        if self.owner != os.getpid():
            return
        self.socket.close()
        with contextlib.suppress(OSError, ValueError):
            self.line.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()


AGAIN = "run the cell again"
_network: Network | None = None


def network_for(machines) -> Network:
    """The one network of this process, with all cables in and each card at its speed."""
    global _network
    if _network is None or not _network.usable(machines.count):
        close_network()
        _network = Network(machines.count)
    speed = machines.bytes_per_second, machines.latency_seconds
    _network.ask("whole", [speed] * machines.count)
    return _network


@atexit.register
def close_network():
    global _network
    if _network is not None:
        _network.close()
        _network = None


def leave_it_to_the_parent():
    """In a child that the learner forks: its copy of the socket would keep the network alive."""
    if _network is not None:
        _network.socket.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=leave_it_to_the_parent)
