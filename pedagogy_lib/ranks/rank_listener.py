"""Waiting for the ranks of a launch: how long each part of it may take, and whether ranks move."""

import contextlib
import contextvars
import math
import os
import selectors

from . import processes
from .fork_server_client import Server
from .listener import LOOK_SECONDS, Listener
from .output import Progress
from .rank_handle import RankHandle
from .refusals import reason
from .stages import BEGUN, JOINED, RETURNED, UNPACKED

START_SECONDS = 60.0  # for processes to start and to meet, if the machine is busy with that
QUIET_START_SECONDS = 2.0  # to grant them at least, if it is not
PATIENCE = 3  # how many timeouts `patiently` grants
IDLE_SHARE = 0.1  # of a processor: less than that is no computing

# How many timeouts ranks get that still compute: more where notebooks are tested side by side.
_patience = contextvars.ContextVar("patience", default=int(os.environ.get("PEDAGOGY_PATIENCE", 1)))


@contextlib.contextmanager
def patiently():
    """Within it, ranks that still compute when their time is up get more, up to `PATIENCE` times.

    For checks, whose short timeouts must not fail a right answer on a busy machine: ranks that
    hang do not compute. Where there is no /proc, the timeout is as it is elsewhere.
    """
    before = _patience.set(max(PATIENCE, _patience.get()))
    try:
        yield
    finally:
        _patience.reset(before)


class RankListener(Listener):
    """Listens to the ranks of one launch, and gives each part of the launch its time."""

    def __init__(self, world_size, timeout):
        super().__init__()
        self.world_size, self.timeout = world_size, timeout
        self.server: Server | None = None  # until the launch runs
        self.patience = _patience.get()
        self.ranks: list[RankHandle] = []
        self.ended: list[RankHandle] = []  # perhaps after their report
        self.awaited = BEGUN  # the stage that ranks are to come to
        self.progress = Progress()
        self.is_to_stop = False  # by somebody in another thread

    def listen_until_decided(self) -> bool:
        """Wait for results. Each part of a launch gets its own time; False if one takes longer."""
        start = max(self.timeout, QUIET_START_SECONDS) if processes.ARE_SEEN else START_SECONDS
        longer = self.timeout * (self.patience if processes.ARE_SEEN else 1)
        return (
            self.listen_for(BEGUN, start, START_SECONDS)
            and self.listen_for(UNPACKED, self.timeout, longer)
            and self.listen_for(JOINED, start, START_SECONDS)
            and self.work_begins()
            and self.listen_for(RETURNED, self.timeout, longer)
            and self.listen_for(None, self.timeout, START_SECONDS, self.all_values_arrive)
            and self.listen_for(None, self.timeout, math.inf, self.is_decided)
        )

    def work_begins(self) -> bool:
        """All ranks have met; True."""
        return True

    def listen_for(self, stage, least, most, condition=None) -> bool:
        """Wait until all ranks have come to a stage (None: to their report), or one has failed."""
        self.awaited = stage
        return self.listen_while_moving(condition or self.none_is_behind, least, most)

    def none_is_behind(self) -> bool:
        return not any(map(self.is_behind, self.ranks)) or self.is_decided()

    def is_behind(self, rank) -> bool:
        """Whether this rank has not come yet as far as all are to come."""
        has_come = rank.report if self.awaited is None else rank.has_come_to(self.awaited)
        return not (has_come or self.is_lost(rank))

    def is_lost(self, rank) -> bool:
        """Whether this rank has died, and the others go on without it."""
        return False

    def all_values_arrive(self) -> bool:
        """Whether the first bytes of every rank's value have come."""
        return all(r.report or r.is_sending or self.is_lost(r) for r in self.ranks) or (
            self.is_decided()
        )

    def round_wait_time(self) -> float:
        """The seconds waited, for an error: the learner's own timeout, if it was about that."""
        near = self.waited < self.timeout + LOOK_SECONDS and self.waited >= self.timeout
        return self.timeout if near else round(self.waited, 1)

    def work_done(self) -> tuple[int, float]:
        """Bytes that have gone to ranks or come from them, and processor seconds."""
        seconds = sum(processes.seconds_of(pid) for pid in self.list_watched_pids())
        return sum(r.bytes_moved() for r in self.ranks), seconds

    def has_moved(self, before) -> bool:
        """Whether bytes have come or gone since, or a process computes or is about to."""
        moved, seconds = self.work_done()
        if moved > before[0] or seconds - before[1] >= IDLE_SHARE * LOOK_SECONDS:
            return True
        return any(processes.state_of(pid) in processes.WORKING for pid in self.list_watched_pids())

    def list_watched_pids(self) -> list[int]:
        """The fork server, and the ranks that are behind: what other ranks do does not count."""
        behind = [r.pid for r in self.ranks if r.pid and self.is_behind(r)]
        return [self.server.process.pid, *behind]

    def look_around(self):
        if self.is_to_stop:
            self.is_to_stop = False
            raise KeyboardInterrupt
        self.server.keep_awake()
        done = sum(r.report is not None for r in self.ranks)
        n = self.world_size
        self.progress.tick(f"{done} of {n} ranks have returned" if n > 1 else "the rank works")

    def hear_server(self, _) -> int:
        """Note what the fork server says about ranks."""
        for word, *numbers in self.server.hear():
            if word == "forked":  # perhaps a rank of the launch before
                pid, number = map(int, numbers)
                for handle in (r for r in self.ranks if r.number == number):
                    handle.pid = pid
            elif word == "exited":  # perhaps a rank of the launch before
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
        """Whether a rank has failed for another reason than that a neighbour has gone."""
        return any(r.has_failed and not r.has_lost_a_neighbour for r in self.ranks)

    def has_every_report(self) -> bool:
        """Of all that are not lost."""
        is_there = [bool(r.report) or self.is_lost(r) for r in self.ranks]
        return len(is_there) == self.world_size and all(is_there)
