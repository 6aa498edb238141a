"""Cases on one rank: for what is measured there, and for what may never come to an end."""

import gc
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from pedagogy_lib.measuring.recorder import measure, peak_bytes_in
from pedagogy_lib.ranks.launcher import launch

from .rank_exercise import RankExercise


@dataclass(frozen=True)
class Alone:
    """A case on one rank.

    what  is tried, in words
    work  is called there: work(answer, *args), {name: what it has found}
    """

    what: str
    work: Callable
    args: tuple = ()

    ranks = (0,)
    is_group = False

    def __str__(self):
        return self.what


def alone(answer, group, case):
    """The `work` of a RankExercise with such cases."""
    return case.work(answer, *case.args)


def on_our_rank(function, *args):
    """What a function gives on a rank without any answer.

    For what is right: an optimizer imports for seconds, which ranks have done before.
    """
    return launch(function, *args, world_size=1, device="cpu").values[0]


@dataclass(frozen=True, eq=False)
class WarmExercise(RankExercise):
    """What a first optimizer imports is imported before: it is no part of the answer's time."""

    warm: bool = True

    def why_lost(self, case, error) -> str:
        """Alone, a rank waits for no other."""
        why = super().why_lost(case, error)
        return "" if why == self.lost else why


_numbers = itertools.count()


def most_bytes(work=lambda: None) -> dict[str, int]:
    """On a rank: the most bytes of each kind, and of all ("total"), while work() runs."""
    label = f"bytes {next(_numbers)}"
    with measure(label):
        work()
    return peak_bytes_in(label)


def bytes_alive() -> int:
    """On a rank: the bytes of all tensors that somebody can still reach."""
    gc.collect()
    return most_bytes()["total"]
