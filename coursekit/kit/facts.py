"""Facts that have to be true on every rank, and the misconceptions of an answer where they are not.

A fact is called with a `Trial`. It raises `Wrong`, or returns a line about a right answer, which
may be empty. It judges the values that ranks have found under a name; where they have found none,
there is nothing to say. Any function that takes a trial may be a fact, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps

import torch

from pedagogy_lib.basics.closeness import close, close_in_float32
from pedagogy_lib.basics.units import format_count

from ..protocol import Wrong
from .diagnoses import difference, kind_of, ratio, run_diagnosis
from .message_costs import TOLERANCE
from .rank_trials import IN_A_GROUP
from .results import NO_RETURN


@dataclass(frozen=True)
class Equals:
    """The fact that every rank has the right value: a tensor, a number, or a dict or list of them.

    truth      takes a trial and a place, and returns the right value there
    mistakes   takes the same, and returns {misconception: the value that it gives}
    called     the learner's name for the value
    otherwise  the diagnosis of a value that no mistake gives, or a function that takes the trial
    tells      takes a trial and a place, and describes the error there; without it, the first
               number that differs is shown
    """

    name: str
    truth: Callable
    mistakes: Callable = lambda trial, place: {}
    called: str = ""
    otherwise: str | Callable = ""
    same: Callable = close
    tells: Callable | None = None

    def __call__(self, trial):
        found = trial.collect_values(self.name)
        if found is None:
            return
        wanted = [self.truth(trial, place) for place in range(trial.n)]
        wrong = [k for k in range(trial.n) if not self.same(found[k], wanted[k])]
        if wrong:
            what = self.tells and run_diagnosis(self.tells, trial, wrong[0])
            what = what or self.difference(trial, found, wanted, wrong[0])
            raise Wrong(str(trial.case), what, self.why(trial, found, wanted, wrong))

    def difference(self, trial, found, wanted, place) -> str:
        told = difference(self.called or self.name, found[place], wanted[place], self.same)
        return f"{trial.name_of_rank(place)}: {told}"

    def why(self, trial, found, wanted, wrong) -> str:
        """Return the mistake that gives the values of all ranks, or else those of wrong ranks."""
        guesses = [run_diagnosis(self.mistakes, trial, k, otherwise={}) for k in range(trial.n)]
        key = first_wrong(found[wrong[0]], wanted[wrong[0]], self.same)
        for places, get in (range(trial.n), whole), (wrong, whole), (wrong, key), (wrong[:1], key):
            for sentence in guesses[wrong[0]]:
                pairs = [(get(found[k]), get(guesses[k].get(sentence))) for k in places]
                if all(self.same(*pair) for pair in pairs):
                    return sentence
        if trial.worlds_passed and trial.case.is_group:
            return IN_A_GROUP
        pairs = [(key(found[k]), key(wanted[k])) for k in wrong]
        told = self.otherwise
        told = run_diagnosis(told, trial) if callable(told) else told
        if key is not whole and "gradient" in self.called and all(got is None for got, _ in pairs):
            return NO_WAY_BACK
        return told or general_mistake(pairs, trial.n)


def whole(value):
    return value


def first_wrong(got, wanted, same):
    """Return a getter of the first wrong entry of a dict or a list, or of the whole value."""
    if isinstance(wanted, Mapping) and isinstance(got, Mapping) and got.keys() == wanted.keys():
        at = next(key for key in wanted if not same(got[key], wanted[key]))
    elif isinstance(wanted, list) and isinstance(got, list) and len(got) == len(wanted):
        at = next(k for k, pair in enumerate(zip(got, wanted)) if not same(*pair))
    else:
        return whole
    return lambda value: entry(value, at)


def entry(value, at):
    """Return an entry, or None if it does not exist, as on a rank that has other keys."""
    try:
        return value[at]
    except (KeyError, IndexError, TypeError):
        return None


@dataclass(frozen=True)
class Holds:
    """The fact that the value of each rank is as it should be.

    is_right  takes the value of a rank
    what      the error, with {} for the value; or a function of the value
    why       the misconception, or a function that takes the trial and the place
    """

    name: str
    is_right: Callable
    what: str | Callable
    why: str | Callable = ""

    def __call__(self, trial):
        for place, value in enumerate(trial.collect_values(self.name) or ()):
            if not self.is_right(value):
                what = self.what if callable(self.what) else self.what.format
                what = run_diagnosis(what, value, otherwise=f"it is {value!r:.60}")
                why = run_diagnosis(self.why, trial, place) if callable(self.why) else self.why
                raise Wrong(str(trial.case), f"{trial.name_of_rank(place)}: {what}", why)


def never(name, what, why="") -> Holds:
    """Return the fact that no rank finds any: lists are empty, numbers are 0, bools are False."""
    return Holds(name, lambda value: not value, what, why)


@dataclass(frozen=True)
class Sends:
    """The fact that a rank sends no more than it has to, in the block `measure_answer()`.

    most  takes a trial and a place, and returns bytes; None or False where there is no limit
    what  the words before the limit: "one all-reduce of all gradients is"
    why   {a call that the answer makes: the misconception}; "" for any other call comes last.
          Or a function that takes the trial and the sent bytes as a multiple of the limit
    """

    most: Callable
    what: str
    why: dict[str, str] | Callable

    def __call__(self, trial):
        most = [self.most(trial, place) for place in range(trial.n)]
        if any(allowed is None or allowed is False for allowed in most):  # 0 is a limit, too
            return ""
        for place, (sent, allowed) in enumerate(zip(trial.sent_bytes, most)):
            if sent > allowed * (1 + TOLERANCE):
                what = (
                    f"{trial.name_of_rank(place)} sends {sent:,} bytes; {self.what} {allowed:,.0f}"
                )
                why = (
                    run_diagnosis(self.why, trial, sent / allowed)
                    if callable(self.why)
                    else self.why_of(trial.calls[place])
                )
                raise Wrong(f"cost, {trial.case}", f"the numbers are right, but {what}", why)
        return f"cost, {trial.case}: a rank sends {max(trial.sent_bytes):,} bytes"

    def why_of(self, calls) -> str:
        found = (why for words, why in self.why.items() if any(words in c.name for c in calls))
        return next(found, "")


def complains(complaints: Callable) -> Callable:
    """Make a fact from a generator: the first (what is wrong, why) that it yields counts."""

    @wraps(complaints)
    def fact(trial):
        for what, why in complaints(trial):
            raise Wrong(str(trial.case), what, why)

    return fact


def first_true(sentences: dict[str, bool]) -> str:
    """Return the first sentence that holds, of {misconception: whether it holds}; or ""."""
    return next((why for why, holds in sentences.items() if holds), "")


# ---- Mistakes that any exercise may have, named only where they are certain ---


def general_mistake(pairs, n) -> str:
    """Return the sentence for a mistake that any exercise may have, or "".

    pairs  (a rank's value, the right value) of each rank that is wrong
    """
    if all(got is None for got, _ in pairs):
        return NO_RETURN
    kinds = next((pair for pair in pairs if kind_of(pair[0]) != kind_of(pair[1])), None)
    if kinds:
        if isinstance(kinds[1], torch.Tensor) and not isinstance(kinds[0], torch.Tensor):
            return "asked is a tensor of torch"
        return OTHER_DTYPE if is_in_other_dtype(*kinds) else ""
    if all(close_in_float32(*pair) for pair in pairs):
        return ROUNDED
    ratios = [ratio(*pair) for pair in pairs]
    return next((why for factor, why in factors(n) if all(close(r, factor) for r in ratios)), "")


NO_WAY_BACK = (
    "from the result no way that autograd knows of leads back to it. Was something detached, taken "
    "by .data, or computed under no_grad?"
)
ROUNDED = (
    "nearly right: it was rounded on its way. A tensor of your own, such as torch.zeros(3), is of "
    "float32 unless told otherwise: zeros_like(x) and x.new_zeros(…) have the dtype of x"
)
OTHER_DTYPE = (
    "the dtype is another one. A tensor of your own, such as torch.zeros(3), is of float32 unless "
    "told otherwise: zeros_like(x) and x.new_zeros(…) have the dtype of x"
)


def is_in_other_dtype(got, wanted) -> bool:
    return hasattr(got, "dtype") and hasattr(wanted, "dtype") and got.dtype != wanted.dtype


def factors(n) -> list[tuple[float, str]]:
    of_ranks = [
        (
            float(n),
            f"it is {n} times too large, as if all {format_count(n, 'rank')} added the same",
        ),
        (1 / n, f"it is 1/{n} of what it should be: what is divided by the number of ranks?"),
    ]
    return of_ranks * (n > 1) + [(-1.0, "the sign is the other way round")]
