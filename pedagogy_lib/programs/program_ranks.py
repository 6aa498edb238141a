"""The ranks of a watched program: where they are, and how the first of them failed."""

import contextlib
import os
import signal
import socket
import time

from ..basics.errors import RankError, describe_death
from ..basics.source_lines import MEETING, SourceLine, make_source_line
from ..ranks import processes
from ..ranks.call_stack import find_source_line, steps_of_dump
from ..ranks.messages import FailureReport
from ..ranks.rank_handle import LOST_CONNECTION, UNKNOWN, text_of
from .watch_folder import WatchFolder

ANSWER_SECONDS = 1.0  # for ranks to say where they are, and as long again for their interpreters
LOOK_SECONDS = 0.02
NOT_STARTED = make_source_line("torchrun has not started its program yet", MEETING)
DEAD = make_source_line("its process has died")
LEFT = "has ended its program, while other ranks still waited for it"


class ProgramRanks:
    """The ranks of one watched program, as the process that started them knows them."""

    def __init__(self, folder):
        self.folder = WatchFolder(folder)

    def find_places(self) -> tuple[dict, dict]:
        """Return where each rank is (None if it has ended), and its collectives, by rank."""
        asked = self.folder.ask()
        self.await_places(asked)
        for rank in self.list_silent(asked):
            with contextlib.suppress(OSError):
                os.kill(self.folder.read(rank, "started")["pid"], signal.SIGUSR1)
        self.await_places(asked)
        places = {rank: self.place_of(rank, asked) for rank in self.folder.ranks()}
        answers = {rank: self.folder.read(rank, "place") for rank in places}
        return places, {rank: said.calls for rank, said in answers.items() if said}

    def await_places(self, asked):
        deadline = time.perf_counter() + ANSWER_SECONDS
        while self.list_silent(asked) and time.perf_counter() < deadline:
            time.sleep(LOOK_SECONDS)

    def list_silent(self, asked) -> list[int]:
        """Return the ranks on this computer that are alive and have not answered."""
        waiting = [rank for rank in self.folder.ranks() if not self.folder.has(rank, "ended")]
        return [
            rank for rank in waiting if self.is_alive(rank) and not self.has_answered(rank, asked)
        ]

    def machine_of(self, rank) -> int:
        """Return the machine on which a rank runs; machine 0 if it has not begun."""
        return (self.folder.read(rank, "started") or {"machine": 0})["machine"]

    def is_alive(self, rank) -> bool:
        started = self.folder.read(rank, "started")
        is_here = started["host"] == socket.gethostname()
        return not is_here or processes.state_of(started["pid"]) not in ("", "Z")

    def has_answered(self, rank, asked) -> bool:
        path = self.folder.file(rank, "place")
        return path.exists() and path.stat().st_mtime >= asked

    def place_of(self, rank, asked) -> SourceLine | None:
        if self.folder.has(rank, "ended"):
            return None
        if self.has_answered(rank, asked):
            place = self.folder.read(rank, "place").source_line
            return (place or UNKNOWN).or_in_wait()
        if not self.is_alive(rank):
            return DEAD
        dumped = steps_of_dump(text_of(self.folder.file(rank, "stack")))
        return find_source_line(dumped) or UNKNOWN

    def build_error(self, deaths, last_words) -> RankError | None:
        """Return the error of the rank that failed first; None if no rank is known to have failed.

        deaths      (rank, exit status as of subprocess, system's time), as torchrun has seen them
        last_words  {rank: the last lines that it has printed}
        """
        failures = {rank: self.folder.read(rank, "failed") for rank in self.folder.ranks()}
        failures = {rank: report for rank, report in failures.items() if report}
        for rank, status, at in deaths:
            what = describe_death(
                -status if status < 0 else status << 8, "before its program ended"
            )
            what += "".join(f"\n  | {line}" for line in last_words.get(rank, ()))
            failures.setdefault(rank, FailureReport(what, None, None, at))
        return self.tell_first(failures) if failures else None

    def tell_first(self, failures) -> RankError:
        """Build the error of the failed rank to blame, or of one that had left too early."""
        first, *later = sorted(failures, key=lambda rank: blame(failures[rank]))
        lost = {rank: one.source_line for rank, one in failures.items() if has_lost(one)}
        gone = [rank for rank in self.folder.ranks() if self.folder.has(rank, "ended")]
        if first in lost and gone:
            line = self.folder.read(gone[0], "ended")
            return RankError(gone[0], LEFT, None, line, lost)
        own = {rank: (failures[rank].what, failures[rank].source_line)
               for rank in later if rank not in lost}  # fmt: skip
        report, lost = failures[first], {rank: lost[rank] for rank in later if rank in lost}
        alike = {(one.what, one.source_line) for one in failures.values()}
        everyone = len(alike) == 1 and len(failures) == len(self.folder.ranks()) > 1
        who = f"all {len(failures)} ranks" * everyone
        exception = report.load_exception()
        return RankError(
            first, report.what, exception, report.source_line, lost, {} if everyone else own, who
        )


def has_lost(report) -> bool:
    """Return whether a rank failed only because its connection to another rank has gone."""
    return LOST_CONNECTION in report.what


def blame(report) -> tuple:
    """Return a sort key, lowest for the rank that failed first and for a reason of its own."""
    was_ended = "SIGTERM" in report.what  # by torchrun, after another rank had failed
    return (2 * was_ended + has_lost(report), report.at)
