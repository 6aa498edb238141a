"""The notebook's side of the network: start the switch, wish for what is to change, end it."""

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..basics.errors import LaunchError
from ..basics.screen import say
from .amounts import Link
from .faults import words_of
from .namespace_support import why_not

SCRIPT = Path(__file__).with_name("switch.py")
ANSWER_SECONDS = 20.0  # that it may take to set up all machines on a busy computer
END_SECONDS = 2.0


class Network:
    """A switch, and a number of machines at it; kept from launch to launch.

    cards  of each machine
    mark   a word for the switch's command line, by which it can be found
    """

    def __init__(self, count, *mark, cards=1):
        if sys.platform != "linux":
            raise LaunchError(why_not(None))
        self.count, self.cards = count, cards
        self.owner, self.lock = os.getpid(), threading.Lock()
        self.is_spoilt = False  # a launch on it has failed: its ranks may have done anything to it
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(ANSWER_SECONDS)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, str(theirs.fileno()), str(count), str(cards), *mark],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # the stop button signals the notebook's group only
            )
        self.line = self.socket.makefile("rw")
        try:
            self.know_ways(**self.hear())
        except BaseException:
            self.close()
            raise

    def know_ways(self, user, networks):
        """Into the machines, by paths in /proc."""
        self.user, self.networks = user, networks

    def make_whole(self, link):
        """All machines plugged in, each card as the `Link` says."""
        self.know_ways(**self.ask("whole", link))

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

    def usable(self, count, cards) -> bool:
        """Whether it is there, with so many machines and cards, and none has been killed."""
        has_ended = self.is_spoilt or self.process.poll() is not None
        if has_ended or self.owner != os.getpid() or (self.count, self.cards) != (count, cards):
            return False
        try:
            return self.ask("all_there")
        except LaunchError:
            return False

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
    if _network is not None and _network.usable(machines.count, machines.cards):
        with contextlib.suppress(LaunchError):  # one of its machines may end this very moment
            _network.make_whole(machines.link)
            return _network
    close_network()
    _network = Network(machines.count, cards=machines.cards)
    _network.make_whole(machines.link)
    return _network


class NetworkRun:
    """What happens to a network during one launch: its plan, and what its cards carry.

    folder  of the launch, for the socket by which ranks wish for what is planned at a block
    """

    def __init__(self, network, plan, folder):
        self.network, self.plan, self.door = network, plan, str(folder / "switch")
        self.timers, self.has_begun = [], False
        network.ask("listen", self.door)
        network.ask("watch")
        if any(one.after_seconds == 0 for one in plan):
            self.begin()

    def wish(self, name, arguments):
        """At its time; a network that has ended needs no plan any more."""
        with contextlib.suppress(LaunchError):
            self.network.ask(name, *arguments)

    def begin(self):
        """What is planned for 0 s is done when this returns."""
        self.has_begun = True
        for one in self.plan:
            if one.after_seconds == 0:
                self.wish(*one.wish)
        self.timers = [threading.Timer(one.after_seconds, self.wish, one.wish)
                       for one in self.plan if one.after_seconds]  # fmt: skip
        for timer in self.timers:
            timer.daemon = True
            timer.start()

    def work_begins(self):
        """All ranks have met: the plan's seconds count from here, unless they do already."""
        if not self.has_begun:
            self.begin()

    def end(self):
        for timer in self.timers:
            timer.cancel()

    def state(self) -> dict:
        """What is not as it was, as `State` takes it."""
        try:
            return self.network.ask("state")
        except LaunchError:
            return {"has_ended": True}

    def history(self, began) -> "CardHistory":
        """What the cards have carried since `began`, as of `time.perf_counter()`."""
        history = CardHistory.build_history(began, **self.network.ask("take_history"))
        for sentence in explain_omissions(self.plan, history.events):
            say(sentence)
        return history


def explain_omissions(plan, events):
    """Says of all that was planned, and has not happened, why that is."""
    happened = Counter(words for _, words in events)
    for one in plan:
        words = words_of(*one.wish[:1], *one.wish.arguments)
        happened[words] -= 1
        if happened[words] < 0:
            yield f"The plan's {words!r} did not happen: {one.why_not()}."


class CardHistory(NamedTuple):
    """What each machine's card has carried, over time.

    times           (looks,) seconds since the launch began
    sent, received  (looks, machines) bytes since the first look
    events          (seconds, what has happened to the network)
    """

    times: np.ndarray
    sent: np.ndarray
    received: np.ndarray
    events: list[tuple[float, str]]

    @classmethod
    def build_history(cls, began, times, sent, received, events):
        sent, received = np.array(sent), np.array(received)
        told = [(at - began, words_of(*wish)) for at, *wish in events]
        return cls(np.array(times) - began, sent - sent[0], received - received[0], told)


@functools.lru_cache(maxsize=1)
def try_machines() -> str:
    """Why no machines can be had here; empty if they can."""
    try:
        Network(1).close()
        return ""
    except LaunchError as error:
        return error.message
    except OSError as error:
        return str(error)


def try_link(link) -> str:
    """Why cards cannot do what a `Link` says; empty if they can. Every system has slow ones."""
    return try_netem() if link.latency_seconds or link.loss else ""


@functools.lru_cache(maxsize=1)
def try_netem() -> str:
    one = Network(1)
    try:
        one.make_whole(Link(latency_seconds=0.001))
        return ""
    except LaunchError as error:
        return error.message
    finally:
        one.close()


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
