"""Exercises on which nobody communicates: their cases run on one rank, or in this process."""

import gc
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from pedagogy_lib.measuring.recorder import measure, peak_bytes_in
from pedagogy_lib.ranks.launcher import launch

from ..protocol import Rejection, Wrong
from .rank_exercise import RankExercise
from .rank_trials import Trial
from .results import outcome_of


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


def run_alone(answer, group, case):
    """The `work` of a RankExercise with such cases."""
    return case.work(answer, *case.args)


def run_on_one_rank(function, *args):
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


class LocalExercise(RankExercise):
    """What its ranks do is done here, one after another: work(answer, place, case)."""

    def trials(self, answer):
        for case in self.cases:
            places = range(len(case.ranks))
            found = [self.run_place(answer, place, case) for place in places]
            yield Trial(case, self.add_known_values(case, found))

    def run_place(self, answer, place, case) -> dict:
        with warnings.catch_warnings():  # of a gradient that is not there a check tells more
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
            try:
                outcome = outcome_of(self.work, answer, place, case)
            except Rejection as refused:
                raise Wrong(str(case), refused.what, refused.why) from None
        if outcome.error:
            raise Wrong(str(case), str(outcome), self.why_it_failed(case, outcome))
        return outcome.value
