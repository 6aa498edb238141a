"""A listener for the ranks of a launch, with a time limit for each part of the launch."""

import contextlib
import contextvars
import math
import os
import selectors
import time

from . import processes
from .fork_server_client import Server
from .messages import BEGUN, JOINED, RETURNED, UNPACKED
from .output import ProgressLine
from .rank_handle import RankHandle
from .refusals import reason

START_SECONDS = 60.0  # for processes to start and to meet, if the machine is busy with that
QUIET_START_SECONDS = 2.0  # the least that they get, if it is not
PATIENCE = 3  # how many timeouts `patiently` grants
LISTEN_SECONDS = 0.25  # at a time, if nothing arrives
LOOK_SECONDS = 0.5  # between two checks for progress
ANSWER_SECONDS = 0.6  # for ranks to say where they are, and as long again for their interpreters
IDLE_SHARE = 0.1  # of a processor: less does not count as computing

# How many timeouts computing ranks get: more where notebooks are tested side by side.
_patience = contextvars.ContextVar("patience", default=int(os.environ.get("PEDAGOGY_PATIENCE", 1)))


@contextlib.contextmanager
def patiently():
    """Give ranks that still compute at their timeout more time, up to `PATIENCE` timeouts.

    This is for checks, whose short timeouts must not fail a right answer on a busy machine. Ranks
    that hang do not compute. Without /proc, the timeout stays as it is.
    """
    before = _patience.set(max(PATIENCE, _patience.get()))
    try:
        yield
    finally:
        _patience.reset(before)


class RankListener:
    """A listener for the ranks of one launch, which gives each part of the launch its time.

    Each connection is registered with a function that takes the events that have occurred and
    returns those to wait for from then on.
    """

    def __init__(self, world_size, timeout):
        self.selector = None
        self.looked_at = 0.0
        self.waited = 0.0  # seconds, when listen_while_moving() returned False
        self.world_size, self.timeout = world_size, timeout
        self.server: Server | None = None  # None until the launch runs
        self.patience = _patience.get()
        self.ranks: list[RankHandle] = []
        self.ended: list[RankHandle] = []  # perhaps after they have reported
        self.awaited = BEGUN  # the stage that ranks have to reach
        self.progress = ProgressLine()
        self.is_to_stop = False  # set by another thread

    def open(self):
        self.selector = selectors.DefaultSelector()

    def listen_until_decided(self) -> bool:
        """Wait for results; return False if a part of the launch takes longer than its own time."""
        start = max(self.timeout, QUIET_START_SECONDS) if processes.ARE_SEEN else START_SECONDS
        longer = self.timeout * (self.patience if processes.ARE_SEEN else 1)
        return (
            self.listen_for(BEGUN, start, START_SECONDS)
            and self.listen_for(UNPACKED, self.timeout, longer)
            and self.listen_for(JOINED, start, START_SECONDS)
            and self.is_ready_to_work()
            and self.listen_for(RETURNED, self.timeout, longer)
            and self.listen_for(None, self.timeout, START_SECONDS, self.all_values_arrive)
            and self.listen_for(None, self.timeout, math.inf, self.is_decided)
        )

    def is_ready_to_work(self) -> bool:
        """Return True, because all ranks have met; `Launch` starts its network's plan first."""
        return True

    def listen_for(self, stage, least, most, condition=None) -> bool:
        """Wait until all ranks have reached a stage (None: have reported), or one has failed."""
        self.awaited = stage
        return self.listen_while_moving(condition or self.none_is_behind, least, most)

    def none_is_behind(self) -> bool:
        return not any(map(self.is_behind, self.ranks)) or self.is_decided()

    def is_behind(self, rank) -> bool:
        """Return whether a rank has not yet reached the awaited stage."""
        has_come = rank.report if self.awaited is None else rank.has_come_to(self.awaited)
        return not (has_come or self.is_lost(rank))

    def is_lost(self, rank) -> bool:
        """Return whether a rank has died and the others go on without it."""
        return False

    def all_values_arrive(self) -> bool:
        """Return whether the first bytes of every rank's value have arrived, or all is decided."""
        return all(r.report or r.is_sending or self.is_lost(r) for r in self.ranks) or (
            self.is_decided()
        )

    def round_wait_time(self) -> float:
        """Return the seconds waited, for an error: the learner's timeout if that is near."""
        near = self.waited < self.timeout + LOOK_SECONDS and self.waited >= self.timeout
        return self.timeout if near else round(self.waited, 1)

    def listen_while_moving(self, condition, least, most) -> bool:
        """Listen for `least` seconds, then as long as there is progress, up to `most` seconds."""
        began = time.perf_counter()
        self.listen_until(condition, max(0, least - LOOK_SECONDS))
        while not condition():
            before = self.work_done()
            since = time.perf_counter() - began
            end = most if since >= least else least
            self.listen_until(condition, min(LOOK_SECONDS, end - since))
            self.waited = time.perf_counter() - began
            over = self.waited >= least and not self.has_moved(before)
            if not condition() and (over or self.waited >= most):
                return False
        return True

    def listen_until(self, condition, seconds, look=LISTEN_SECONDS) -> bool:
        """Handle what arrives until `condition()` holds; return False if `seconds` pass first.

        look  seconds between two calls of `condition` while nothing arrives
        """
        deadline = time.perf_counter() + seconds
        while not condition():
            left = deadline - time.perf_counter()
            if left <= 0:  # this process may have slept, so arrivals meanwhile count
                self.hear_all(0)
                return condition()
            self.hear_all(min(left, look))
            self.look()
        return True

    def look(self):
        now = time.perf_counter()
        if now - self.looked_at >= LISTEN_SECONDS:
            self.looked_at = now
            self.look_around()

    def hear_all(self, seconds):
        """Handle all that has arrived; if that is nothing, wait at most `seconds` for something."""
        for key, events in self.selector.select(seconds):
            wanted = key.data(events)
            if not wanted:
                self.selector.unregister(key.fileobj)
            elif wanted != key.events:
                self.selector.modify(key.fileobj, wanted, key.data)

    def work_done(self) -> tuple[int, float]:
        """Return a counter of bytes moved to and from ranks, and the processor seconds used."""
        seconds = sum(processes.seconds_of(pid) for pid in self.list_watched_pids())
        return sum(r.bytes_moved() for r in self.ranks), seconds

    def has_moved(self, before) -> bool:
        """Return whether bytes have moved since `before`, or a process computes or is about to."""
        moved, seconds = self.work_done()
        if moved > before[0] or seconds - before[1] >= IDLE_SHARE * LOOK_SECONDS:
            return True
        return any(processes.state_of(pid) in processes.WORKING for pid in self.list_watched_pids())

    def list_watched_pids(self) -> list[int]:
        """Return the PIDs whose work is progress: the fork server's and those of ranks behind."""
        behind = [r.pid for r in self.ranks if r.pid and self.is_behind(r)]
        return [self.server.process.pid, *behind]

    def look_around(self):
        if self.is_to_stop:
            self.is_to_stop = False
            raise KeyboardInterrupt
        self.server.keep_awake()
        for handle in self.ranks:
            handle.output.refresh()
        done = sum(r.report is not None for r in self.ranks)
        n = self.world_size
        self.progress.tick(f"{done} of {n} ranks have returned" if n > 1 else "the rank works")

    def hear_server(self, _) -> int:
        """Note the messages of the fork server about ranks."""
        for word, *numbers in self.server.hear():
            if word == "forked":  # perhaps a rank of the previous launch
                pid, number = map(int, numbers)
                for handle in (r for r in self.ranks if r.number == number):
                    handle.pid = pid
            elif word == "exited":  # perhaps a rank of the previous launch
                pid, status = map(int, numbers)
                for handle in [r for r in self.ranks if r.pid == pid]:
                    handle.note_exit(status)
                    self.ended.append(handle)
            elif word == "refused":
                refusal, number = map(int, numbers)
                why = reason(OSError(refusal, os.strerror(refusal)))
                for handle in (r for r in self.ranks if r.number == number):
                    handle.fail(f"could not be started: {why}")
        return selectors.EVENT_READ

    def is_decided(self) -> bool:
        return any(map(self.has_failed, self.ranks)) or self.has_every_report()

    def has_failed(self, rank) -> bool:
        return rank.has_failed and not self.is_lost(rank)

    def has_a_cause(self) -> bool:
        """Return whether a rank has failed for another reason than the loss of a neighbour."""
        return any(r.has_failed and not r.has_lost_a_neighbour for r in self.ranks)

    def has_every_report(self) -> bool:
        """Return whether all ranks that are not lost have reported."""
        is_there = [bool(r.report) or self.is_lost(r) for r in self.ranks]
        return len(is_there) == self.world_size and all(is_there)

    def ask_where(self) -> dict:
        """Ask where each rank is; return {rank: source line}, None for one that has returned."""
        alive = [r for r in self.ranks if r.status is None]  # those that have returned know calls
        for handle in alive:
            handle.ask_where()
        for ask_again in (True, False):
            self.listen_until(lambda: all(r.has_answered() for r in alive), ANSWER_SECONDS, 0.02)
            waiting = (r for r in alive if not r.report and not r.has_answered())
            for handle in waiting if ask_again else ():
                handle.ask_for_dump()
        return {r.rank: r.where() for r in self.ranks if not self.is_lost(r)}

    def find_calls(self) -> dict:
        """Return the collectives of each rank, as it has told them when asked where it is."""
        return {r.rank: r.calls for r in self.ranks if not self.is_lost(r)}
