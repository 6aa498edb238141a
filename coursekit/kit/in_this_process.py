"""Exercises on which nobody communicates: what a rank would do is done here."""

import warnings

from ..protocol import Wrong
from .outcomes import outcome_of
from .rank_exercise import RankExercise
from .refused import Refused
from .trial import Trial


class InThisProcess(RankExercise):
    """What its ranks do is done here, one after another: work(answer, place, case)."""

    def trials(self, answer):
        for case in self.cases:
            places = range(len(case.ranks))
            found = [self.found_at(answer, place, case) for place in places]
            yield Trial(case, self.with_known(case, found))

    def found_at(self, answer, place, case) -> dict:
        with warnings.catch_warnings():  # of a gradient that is not there a check tells more
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
            try:
                outcome = outcome_of(self.work, answer, place, case)
            except Refused as refused:
                raise Wrong(str(case), refused.what, refused.why) from None
        if outcome.error:
            raise Wrong(str(case), str(outcome), self.why_it_failed(case, outcome))
        return outcome.value
