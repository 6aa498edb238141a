"""Errors of a launch, with messages that point at the learner's own lines."""

from __future__ import annotations

import signal

from .group_diagnosis import Calls
from .hang_diagnosis import describe, diagnosis, has_returned, is_general
from .rank_texts import ranks_text
from .screen import is_notebook
from .source_lines import SourceLine
from .text_wrap import wrap

MOST_TOLD = 8  # failed ranks that are reported in addition to the first
MOST_CHARACTERS = 200  # of the message of each of them


class BriefError(BaseException):
    """An error explained by its message alone, which a notebook shows without library frames."""

    @property
    def message(self) -> str:
        """The message without the line breaks that a notebook adds to long lines."""
        return str(self.args[0]) if self.args else ""

    def __str__(self):
        return "\n".join(wrap(self.message, deeper=4)) if is_notebook() else self.message

    def _render_traceback_(self):
        return wrap(f"{type(self).__name__}: {self.message}", deeper=4)


class LaunchError(BriefError, RuntimeError):
    """A launch that gave no result."""


class WrongInput(LaunchError, ValueError):
    """An unusable argument of a function of the course; the message says what is allowed."""


def need(condition, sentence):
    """Raise WrongInput with `sentence` unless the condition holds."""
    if not condition:
        raise WrongInput(sentence)


def need_course(folder):
    """Raise WrongInput if pedagogy_lib is installed alone, without this folder of the course."""
    alone = f"there is no course in {folder.parent}: pedagogy_lib alone has no {folder.name}/"
    need(folder.is_dir(), alone)


class Stopped(BriefError, KeyboardInterrupt):
    """An interrupt of a launch or a check by the learner, with the stop button or Ctrl-C."""


NO_RANK_YET = "the launch was stopped before its ranks had begun, or while it ended"


def where_stopped(waits: dict[int, SourceLine | None]) -> str:
    """Describe where each rank was when its launch was interrupted."""
    return f"where each rank was:\n{describe(waits)}" if waits else NO_RANK_YET


class RankError(LaunchError):
    """A launch in which a rank raised, died or was killed.

    rank       the rank that failed; the first one if several failed
    exception  the exception that it raised; None if it died without one, or it cannot be pickled
    place      the learner's line, a `SourceLine`; None if it is unknown, as for a killed rank
    """

    def __init__(self, rank, what, exception=None, source_line=None, lost=None, own=None, who=""):
        """Compose the message.

        what  what happened to the rank, as a verb phrase: "raised ValueError: …", "was killed …"
        lost  {rank: source line} of the ranks that lost a neighbour after this failure
        own   {rank: (what, source line)} of the other ranks that failed on their own
        who   subject of `what`, if more ranks than one failed so; by default "rank 0" or the like
        """
        self.rank, self.exception, self.place = rank, exception, source_line
        lines = [f"{who or f'rank {rank}'} {what}"]
        if source_line is not None:
            tells_more = source_line.operation not in ("", "backward")
            shown = source_line if tells_more else source_line._replace(call="")
            lines += [f"  at {source_line}", *(f"      {more}" for more in shown.list_details())]
        lines += own_errors(own or {}, (what, source_line))
        lost = {rank: where for rank, where in (lost or {}).items() if where}
        if lost:
            lines += ["after it, and perhaps because of it, others failed:", describe(lost)]
        super().__init__("\n".join(lines))


def own_errors(failures, first) -> list[str]:
    """List what other ranks raised on their own, each with its line unless already reported.

    failures  {rank: (what, source line)}
    first     what the first rank raised, and its source line
    """
    alike = [rank for rank, failure in sorted(failures.items()) if failure == first]
    failures = {rank: failure for rank, failure in failures.items() if rank not in alike}
    lines = [f"{ranks_text(alike)} failed in the same way"] * bool(alike)
    if not failures:
        return lines
    known_line = first[1]
    lines.append("other ranks failed too, each with an error of its own:")
    for rank, (what, source_line) in sorted(failures.items())[:MOST_TOLD]:
        lines.append(f"  rank {rank} {what.splitlines()[0][:MOST_CHARACTERS]}")
        lines += [f"    at {source_line}"] * (source_line not in (None, known_line))
    more = len(failures) - MOST_TOLD
    return lines + [f"  … and {more} more"] * (more > 0)


class HangError(LaunchError):
    """A launch in which not every rank finished in time.

    waits    {rank: its `SourceLine`, or None if it has already returned}
    timeout  how long the launch waited for the ranks; the error has it as `seconds`
    advice   the conclusion to draw from this, in a sentence or two

    calls    {rank: its collectives by group}, as far as they are known
    """

    def __init__(
        self,
        waits: dict[int, SourceLine | None],
        timeout: float,
        world_size=None,
        network="",
        calls: Calls | None = None,
    ):
        """Compose the message.

        world_size  the number of all ranks, if `waits` covers only some, such as those of a group
        network     replaces the diagnosis as advice, if it is given
        """
        self.waits, self.seconds, self.calls = waits, timeout, calls or {}
        self.advice = network or diagnosis(waits, world_size or len(waits), calls)
        super().__init__(f"{self.places()}\n{self.advice}")

    def places(self) -> str:
        """Return the message without advice: which ranks had returned, where the others were."""
        done = sum(has_returned(source_line) for source_line in self.waits.values())
        return (
            f"after {self.seconds:g} s, {done} of {len(self.waits)} ranks had returned. "
            f"Where each rank was:\n{describe(self.waits)}"
        )

    def format_message(self, why) -> str:
        """Return the message, without general advice if the reader is also given `why`."""
        return self.places() if why and is_general(self.advice) else str(self)


def describe_death(status: int, when="", guesses=True) -> str:
    """Describe how a process ended that reported nothing, by its status from `os.waitpid`.

    guesses  whether to add what the status often means
    """
    code = -(status & 0x7F) if status & 0x7F else status >> 8
    if code >= 0:
        return f"ended with exit code {code} {when or 'before it returned'}"
    name = signal_name(-code)
    hint = " (often: the machine ran out of memory)" if name == "SIGKILL" and guesses else ""
    return f"was killed by {name}{hint} {when}".rstrip()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
