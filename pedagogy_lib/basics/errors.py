"""What can go wrong in a launch, told in the learner's own lines."""

from __future__ import annotations

import signal

from .hang_diagnosis import describe, diagnosis, has_returned, is_general, ranks_text
from .places import Place
from .screen import is_notebook
from .text_wrap import wrap

MOST_TOLD = 8  # ranks that failed beside the first
MOST_CHARACTERS = 200  # of what each of them raised


class BriefError(BaseException):
    """An error whose message alone explains it: a notebook shows that, and no library frames."""

    @property
    def message(self) -> str:
        """What it says, without the line breaks that a notebook adds to long lines."""
        return str(self.args[0]) if self.args else ""

    def __str__(self):
        return "\n".join(wrap(self.message, deeper=4)) if is_notebook() else self.message

    def _render_traceback_(self):
        return wrap(f"{type(self).__name__}: {self.message}", deeper=4)


class LaunchError(BriefError, RuntimeError):
    """A launch that gave no result."""


class WrongInput(LaunchError, ValueError):
    """What a function of the course was given is of no use; the message says what is."""


def need(condition, sentence):
    """Raise WrongInput with this sentence, unless the condition holds."""
    if not condition:
        raise WrongInput(sentence)


def need_course(folder):
    """Raise WrongInput where pedagogy_lib is installed alone, without this folder of the course."""
    alone = f"there is no course in {folder.parent}: pedagogy_lib alone has no {folder.name}/"
    need(folder.is_dir(), alone)


class Stopped(BriefError, KeyboardInterrupt):
    """The learner has interrupted a launch or a check, with the stop button or Ctrl-C."""


NO_RANK_YET = "the launch was stopped before its ranks had begun, or while it ended"


def where_stopped(waits: dict[int, Place | None]) -> str:
    """For the interrupt of a launch, where each rank was."""
    return f"where each rank was:\n{describe(waits)}" if waits else NO_RANK_YET


class RankError(LaunchError):
    """One rank raised, died or was killed.

    Attributes
        rank: which one; the first to fail, if several did.
        exception: what it raised; None if it died without a word, or this cannot be pickled.
        place: the learner's line, or None if the rank died without a word.
    """

    def __init__(self, rank, what, exception=None, place=None, lost=None, own=None, who=""):
        """`lost`: {rank: place} of those that then lost a neighbour; `own`: {rank: failure}."""
        self.rank, self.exception, self.place = rank, exception, place
        lines = [f"{who or f'rank {rank}'} {what}"]
        if place is not None:
            tells_more = place.operation not in ("", "backward")
            shown = place if tells_more else place._replace(call="")
            lines += [f"  at {place}", *(f"      {more}" for more in shown.list_details())]
        lines += own_errors(own or {}, (what, place))
        lost = {rank: where for rank, where in (lost or {}).items() if where}
        if lost:
            lines += ["after it, and perhaps because of it, others failed:", describe(lost)]
        super().__init__("\n".join(lines))


def own_errors(failures, first) -> list[str]:
    """What other ranks raised on their own, each with its line unless that is told already.

    first  what the first rank raised, and its place
    """
    alike = [rank for rank, failure in sorted(failures.items()) if failure == first]
    failures = {rank: failure for rank, failure in failures.items() if rank not in alike}
    lines = [f"{ranks_text(alike)} failed in the same way"] * bool(alike)
    if not failures:
        return lines
    known_place = first[1]
    lines.append("other ranks failed too, each with an error of its own:")
    for rank, (what, place) in sorted(failures.items())[:MOST_TOLD]:
        lines.append(f"  rank {rank} {what.splitlines()[0][:MOST_CHARACTERS]}")
        lines += [f"    at {place}"] * (place not in (None, known_place))
    more = len(failures) - MOST_TOLD
    return lines + [f"  … and {more} more"] * (more > 0)


class HangError(LaunchError):
    """Not every rank finished in time.

    Attributes
        waits: for each rank its `Place`; None for a rank that has already returned.
        seconds: for which they were waited for.
        advice: what follows of that, in a sentence or two.

    If `waits` are those of some ranks alone, such as a group, `world_size` counts all ranks.
    """

    def __init__(self, waits: dict[int, Place | None], timeout: float, world_size=None, network=""):
        """`network`: what is wrong with that of its machines."""
        self.waits, self.seconds = waits, timeout
        self.advice = network or diagnosis(waits, world_size or len(waits))
        super().__init__(f"{self.places()}\n{self.advice}")

    def places(self) -> str:
        """Who had returned, and where the others were: the message without its advice."""
        done = sum(has_returned(place) for place in self.waits.values())
        return (
            f"after {self.seconds:g} s, {done} of {len(self.waits)} ranks had returned. "
            f"Where each rank was:\n{describe(self.waits)}"
        )

    def format_message(self, why) -> str:
        """The message, for one who is also told `why`: that takes the place of general advice."""
        return self.places() if why and is_general(self.advice) else str(self)


def describe_death(status: int, when="", guesses=True) -> str:
    """How a process ended that said nothing: the status from `os.waitpid`, in words.

    guesses  whether to say what it often means
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
    except ValueError:  # of a real-time signal
        return f"signal {number}"
