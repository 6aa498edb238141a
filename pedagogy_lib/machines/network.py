"""The notebook's side of the network, which starts the switch, sends wishes and ends it."""

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
ANSWER_SECONDS = 20.0  # within which even a busy computer sets up all machines
END_SECONDS = 2.0


class Network:
    """A switch with a number of machines, kept from launch to launch.

    cards  number of cards of each machine
    mark   words for the switch's command line, by which it can be found
    """

    def __init__(self, count, *mark, cards=1):
        if sys.platform != "linux":
            raise LaunchError(why_not(None))
        self.count, self.cards = count, cards
        self.owner, self.lock = os.getpid(), threading.Lock()
        self.is_spoilt = False  # True after a failed launch, whose ranks may have changed anything
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(ANSWER_SECONDS)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, str(theirs.fileno()), str(count), str(cards), *mark],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # the stop button signals only the notebook's group
            )
        self.line = self.socket.makefile("rw")
        try:
            self.know_ways(**self.hear())
        except BaseException:
            self.close()
            raise

    def know_ways(self, user, networks):
        """Store the paths in /proc by which processes enter the machines."""
        self.user, self.networks = user, networks

    def make_whole(self, link):
        """Plug in all machines and set each card to the `Link`."""
        self.know_ways(**self.ask("whole", link))

    def ask(self, *wish):
        """Make a wish and return the answer once it is fulfilled; raise LaunchError on refusal."""
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
        """Return whether the network works, with this many machines and cards and none killed."""
        has_ended = self.is_spoilt or self.process.poll() is not None
        if has_ended or self.owner != os.getpid() or (self.count, self.cards) != (count, cards):
            return False
        try:
            return self.ask("all_there")
        except LaunchError:
            return False

    def close(self):
        """End the switch, and with it the machines and all processes left on them."""
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
    """Return the one network of this process, with all cables in and each card at its speed."""
    global _network
    if _network is not None and _network.usable(machines.count, machines.cards):
        with contextlib.suppress(LaunchError):  # one of its machines may end at this moment
            _network.make_whole(machines.link)
            return _network
    close_network()
    _network = Network(machines.count, cards=machines.cards)
    _network.make_whole(machines.link)
    return _network


class NetworkRun:
    """One launch on a network: its planned faults, and the bytes that its cards carry.

    folder  folder of the launch, for the socket over which ranks ask for faults planned at a block
    """

    def __init__(self, network, plan, folder):
        self.network, self.plan, self.door = network, plan, str(folder / "switch")
        self.timers, self.has_begun = [], False
        network.ask("listen", self.door)
        network.ask("watch")
        if any(one.after_seconds == 0 for one in plan):
            self.begin()

    def wish(self, name, arguments):
        """Send a wish to the switch, unless the network has ended and needs no plan any more."""
        with contextlib.suppress(LaunchError):
            self.network.ask(name, *arguments)

    def begin(self):
        """Start the plan: fulfil the wishes for 0 s at once, and set timers for the others."""
        self.has_begun = True
        for one in self.plan:
            if one.after_seconds == 0:
                self.wish(*one.wish)
        self.timers = [threading.Timer(one.after_seconds, self.wish, one.wish)
                       for one in self.plan if one.after_seconds]  # fmt: skip
        for timer in self.timers:
            timer.daemon = True
            timer.start()

    def begin_if_needed(self):
        """Start the plan's seconds, because all ranks have met, unless they count already."""
        if not self.has_begun:
            self.begin()

    def end(self):
        for timer in self.timers:
            timer.cancel()

    def state(self) -> dict:
        """Return the changes since the launch began, as keyword arguments of `State`."""
        try:
            return self.network.ask("state")
        except LaunchError:
            return {"has_ended": True}

    def history(self, began) -> "CardHistory":
        """Return what the cards have carried, and print why planned faults did not happen.

        began  start of the launch, according to `time.perf_counter()`
        """
        history = CardHistory.build_history(began, **self.network.ask("take_history"))
        for sentence in explain_omissions(self.plan, history.events):
            say(sentence)
        return history


def explain_omissions(plan, events):
    """Yield, for each planned fault that has not happened, a sentence with the reason."""
    happened = Counter(words for _, words in events)
    for one in plan:
        words = words_of(*one.wish[:1], *one.wish.arguments)
        happened[words] -= 1
        if happened[words] < 0:
            yield f"The plan's {words!r} did not happen: {one.why_not()}."


class CardHistory(NamedTuple):
    """The bytes that each machine's cards have carried, over time.

    times           (looks,) seconds since the launch began
    sent, received  (looks, machines) bytes since the first look
    events          (seconds since the launch began, fault in words)
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
    """Return why no machines can be made here; empty if they can."""
    try:
        Network(1).close()
        return ""
    except LaunchError as error:
        return error.message
    except OSError as error:
        return str(error)


def try_link(link) -> str:
    """Return why cards cannot delay or lose packets as a `Link` says; empty if they can."""
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
    """Close a forked child's copy of the socket, which would keep the network alive."""
    if _network is not None:
        _network.socket.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=leave_it_to_the_parent)
