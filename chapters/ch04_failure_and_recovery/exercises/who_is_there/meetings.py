"""Participants of a meeting, which ask one store who is there; each is a thread of one process."""

import contextlib
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

LONG = 30.0  # seconds of patience, which a right answer does not need
READS = "get", "check"  # calls to a store that write nothing
AFTER, SAME_MOMENT = "after", "same moment"
SETTLES = 0.3  # seconds for a participant to write its name before the next one comes
HELD = 1.0  # seconds at most for which a call is held
SLACK = 1.0  # seconds by which a right answer may be late on a busy machine


class Dead(Exception):
    """The error that ends a participant at a call to the store, as if it were killed."""


class CallLogStore(dist.FileStore):
    """The store of a participant, which records its calls; `before` is called before each one."""

    def __init__(self, path):
        super().__init__(path, -1)
        self.calls, self.wrote = [], threading.Event()
        self.before = lambda call, key: None

    def note(self, call, key, text=""):
        self.before(call, key)
        self.calls.append((call, key, str(text)))
        if call not in READS:
            self.wrote.set()

    def append(self, key, text):
        self.note("append", key, text)
        return super().append(key, text)

    def set(self, key, text):
        self.note("set", key, text)
        return super().set(key, text)

    def compare_set(self, key, expected, desired):
        self.note("compare_set", key, desired)
        return super().compare_set(key, expected, desired)

    def add(self, key, number):
        self.note("add", key, number)
        return super().add(key, number)

    def get(self, key):
        self.note("get", key)
        return super().get(key)

    def check(self, keys):
        self.note("check", str(keys))
        return super().check(keys)


class One:
    """A participant: a thread, its store and its result."""

    def __init__(self, path, name):
        self.store, self.name = CallLogStore(path), name
        self.began = self.ended = self.error = self.value = None
        self.has_begun, self.has_proposed = threading.Event(), threading.Event()

    def begin(self, answer, *args):
        self.thread = threading.Thread(target=self.ask, args=(answer, *args), daemon=True)
        self.thread.start()

    def ask(self, answer, meeting, former, n, patience):
        self.began = time.monotonic()
        try:
            self.value = answer(self.store, meeting, self.name, list(former), n, patience)
        except Exception as error:
            self.error = error
        self.ended = time.monotonic()


@dataclass(frozen=True)
class Asks:
    """A case: the participants, one after another, and the list that all of them must get.

    who         [(name, former, patience, when), …]: `when` is seconds after the previous one has
                come, AFTER all previous ones have returned, or a function that waits for the time
    wanted      the list; None: any list that is the same for all
    waits, why  the diagnoses if a participant waits forever, or gets another list
    not_before  (name, seconds, diagnosis if any participant returns earlier than that, counted from
                when this one has come)
    not_after   (name, seconds, diagnosis if this one returns later than that, plus SLACK)
    plot        takes all participants and puts an obstacle in the way of their stores
    second      the index of the first participant of the second meeting
    """

    what: str
    n: int
    who: list[tuple]
    wanted: list[str] | None
    waits: str
    why: str = ""
    not_before: tuple = ()
    not_after: tuple = ()
    plot: Callable = lambda ones: None
    second: int = 10**6

    def begin(self, answer) -> "Meeting":
        if hasattr(answer, "lab"):
            answer = getattr(answer.lab, answer.__name__)  # read before there are threads
        folder = tempfile.TemporaryDirectory(prefix="meeting-", ignore_cleanup_errors=True)
        meeting = Meeting(self, folder)
        meeting.hold(answer)
        return meeting

    def lists(self, got) -> list[tuple]:
        """Return (name, right list, result) of all that have returned, from a meeting's `got`."""
        everybody, wanted = sorted(name for name, _ in got[: self.second]), self.wanted
        wanted = wanted or self.any_right(got)
        of_first = everybody if got[self.second :] else wanted
        return [
            (name, of_first if place < self.second else wanted, value)
            for place, (name, value) in enumerate(got)
        ]

    def any_right(self, got) -> list[str]:
        """Return a sorted list that all could have got: the first one's if its names can be."""
        (first, value), *_ = got
        names = {name for name, *_ in self.who}
        is_right = isinstance(value, list) and first in value
        is_right = is_right and all(one in names for one in value if isinstance(one, str))
        return sorted({*map(str, value)} if is_right else {name for name, _ in got})


class Meeting:
    """The course and the results of a case."""

    LIMIT = 4.0  # seconds

    def __init__(self, asks, folder):
        self.asks, self.folder = asks, folder
        path = str(Path(folder.name, "store"))
        self.ones = [One(path, name) for name, *_ in asks.who]
        asks.plot(self.ones)

    def hold(self, answer):
        """Let all ask, and wait until they have returned, or for LIMIT seconds."""
        for place, (_, former, patience, when) in enumerate(self.asks.who):
            one, earlier = self.ones[place], self.ones[:place]
            self.await_turn(when, earlier)
            name = f"meeting {1 + (place >= self.asks.second)}"
            one.begin(answer, name, former, self.asks.n, patience)
        self.join(self.ones)
        for one in self.ones:
            if one.error and not isinstance(one.error, Dead):
                self.folder.cleanup()  # the error keeps this object alive until its process ends
                raise one.error

    def await_turn(self, when, earlier):
        if when == AFTER:
            self.join(earlier)
        elif callable(when):
            when(earlier)
        elif when != SAME_MOMENT and earlier:
            earlier[-1].store.wrote.wait(SETTLES)
            time.sleep(when)

    def join(self, ones):
        until = time.monotonic() + self.LIMIT
        for one in ones:
            one.thread.join(max(0, until - time.monotonic()))

    def name_waiter(self) -> str:
        """Return the name of one that has not returned, or an empty text."""
        waits = [one.name for one in self.ones if one.ended is None]
        return f"{waits[0]!r}" if waits else ""

    def list_results(self) -> list[tuple]:
        """Return (name, result) of all that have returned."""
        return [(one.name, one.value) for one in self.ones if one.error is None]

    def early(self) -> tuple | None:
        """Return (name, seconds) of one that has returned too early, or None."""
        if not self.asks.not_before:
            return None
        name, seconds, _ = self.asks.not_before
        first = next(one for one in self.ones if one.name == name).began + seconds
        early = [one for one in self.ones if one.ended < first]
        return (early[0].name, early[0].ended - early[0].began) if early else None

    def late(self) -> tuple | None:
        """Return (name, seconds) of one that has returned too late, or None."""
        if not self.asks.not_after:
            return None
        name, most, _ = self.asks.not_after
        one = next(one for one in self.ones if one.name == name)
        is_late = one.ended is not None and one.ended - one.began > most + SLACK
        return (name, one.ended - one.began) if is_late else None

    def has_announced(self) -> bool:
        """Return whether some call, as far as that can be seen, has written a name."""
        calls = [call for one in self.ones for call in one.store.calls]
        return not calls or any(
            one.name in key + text for one in self.ones for _, key, text in one.store.calls
        )

    def list_returned(self) -> list[One]:
        """Return those that have returned from the meeting in which another one waits."""
        of_this = self.ones[self.asks.second :] or self.ones
        return [one for one in of_this if one.ended is not None and one.error is None]

    def has_a_list(self) -> bool:
        """Return whether one has written the list that it returned, as far as that can be seen.

        The first text of a participant only announces it and does not count.
        """
        for one in self.list_returned():
            _, *later = [text for call, _, text in one.store.calls if call not in READS] or [""]
            names = one.value if isinstance(one.value, list | tuple) else [one.name]
            if any(all(str(name) in text for name in names) for text in later):
                return True
        return False

    def overwritten(self) -> bool:
        """Return whether several participants have set the same key."""
        keys = [{key for call, key, _ in one.store.calls if call == "set"} for one in self.ones]
        return max(Counter(key for of_one in keys for key in of_one).values(), default=0) > 1


# ---- What gets in the way -------------------------------------------------------------------


def synchronise_sets(ones):
    """Let all first sets happen at one moment, so that reading before setting does not help."""
    barrier = threading.Barrier(len(ones))

    def await_all_sets(call, key):
        if call == "set":
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(HELD / 2)

    for one in ones:
        one.store.before = await_all_sets


def hold(ones):
    """Let the second propose another list after the first proposes, before that is written."""
    first, second = ones

    def proposes(one, call):
        """Return whether a call is a first proposal; a first append only announces."""
        is_list = call in ("set", "compare_set") or (call == "append" and one.store.wrote.is_set())
        return is_list and not one.has_proposed.is_set()

    def await_second(call, key):
        if proposes(first, call):
            first.has_proposed.set()
            second.has_proposed.wait(HELD)

    def await_first(call, key):
        if proposes(second, call):
            second.has_proposed.set()
            first.thread.join(HELD)

    first.store.before, second.store.before = await_second, await_first


def goes_between(earlier):
    earlier[0].has_proposed.wait(HELD)


def dies(name):
    """Return a plot in which the participant of this name is killed at its second call."""

    def plot(ones):
        one = next(one for one in ones if one.name == name)

        def kill_at_second_call(call, key):
            if one.store.calls:
                raise Dead

        one.store.before = kill_at_second_call

    return plot
