"""Exercises without communication: their cases run on one rank, or in this process."""

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

    what  a text about what is tried
    work  called there as work(answer, *args); returns {name: what it has found}
    """

    what: str
    work: Callable
    args: tuple = ()

    ranks = (0,)
    is_group = False

    def __str__(self):
        return self.what


def run_alone(answer, group, case):
    """Run the work of an `Alone` case: the `work` of a RankExercise with such cases."""
    return case.work(answer, *case.args)


def run_on_one_rank(function, *args):
    """Return the value of a function on a rank without any answer.

    Right values need it: an optimizer imports for seconds, which ranks have done before.
    """
    return launch(function, *args, world_size=1, device="cpu").values[0]


@dataclass(frozen=True, eq=False)
class WarmExercise(RankExercise):
    """An exercise whose ranks import an optimizer beforehand, outside of the answer's time."""

    warm: bool = True

    def why_lost(self, case, error) -> str:
        """Return the diagnosis of a hang, but not `on_hang`: alone, a rank waits for no other."""
        why = super().why_lost(case, error)
        return "" if why == self.on_hang else why


_numbers = itertools.count()


def most_bytes(work=lambda: None) -> dict[str, int]:
    """Return, on a rank, the peak bytes of each kind and of all ("total") while work() runs."""
    label = f"bytes {next(_numbers)}"
    with measure(label):
        work()
    return peak_bytes_in(label)


def bytes_alive() -> int:
    """Return, on a rank, the bytes of all tensors that can still be reached."""
    gc.collect()
    return most_bytes()["total"]


class LocalExercise(RankExercise):
    """An exercise whose ranks' work is done here, one after another: work(answer, place, case)."""

    def trials(self, answer):
        for case in self.cases:
            places = range(len(case.ranks))
            found = [self.run_place(answer, place, case) for place in places]
            yield Trial(case, self.add_known_values(case, found))

    def run_place(self, answer, place, case) -> dict:
        with warnings.catch_warnings():  # a check says more about a missing gradient
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
            try:
                outcome = outcome_of(self.work, answer, place, case)
            except Rejection as refused:
                raise Wrong(str(case), refused.what, refused.why) from None
        if outcome.error:
            raise Wrong(str(case), str(outcome), self.why_it_failed(case, outcome))
        return outcome.value
