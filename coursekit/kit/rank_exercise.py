"""Exercises whose answer is tried on ranks: all its cases in one launch, and facts about each."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from pedagogy_lib.basics.errors import HangError

from ..protocol import Wrong
from ..trying import there
from .between_cases import YIELDS, is_generator, mistake_between
from .diagnoses import said_by
from .facts import Equals
from .formula import where_right
from .on_ranks import NOT_TOLD, try_cases
from .trial import Trial
from .values import EXIT
from .warming import warm_up
from .worlds import TOO_LONG


@dataclass(frozen=True, eq=False)
class RankExercise:
    """An exercise whose answer communicates, or works on what ranks have.

    cases    what it is tried on, in this order: each has `ranks`, `is_group`, and a text; see At
    work     called on each rank of a case, work(answer, group, case): {name: what it has found}.
             What it runs under `answering()` counts as what the answer has sent
    facts    each takes a `Trial`, and raises `Wrong`; see facts.py
    told     what is right if all facts hold; or takes a trial, and says so
    errors   {words of an exception: what they mean here}
    lost     what it means that ranks wait for each other for ever, or lose each other
    explain  takes a case and an error, and says what that means; before `errors`
    needs    numbers of exercises that this one is built on: see Exercise
    warm     whether ranks need an optimizer or a DDP, whose first use imports for seconds
    timeout  seconds until all cases together count as hung, if it is not that of every check
    known    takes a case and a place, and gives {name: what is known of it without asking a rank},
             as what the truth is made of. It takes the place of whatever a rank calls so
    found    takes a case, and gives the names under which ranks find something there if all is
             right; those of each Equals, unless given. Facts say nothing of what is missing
    rare     of these names, those that are found in some cases alone, if `found` is not given
    """

    number: str = field(default="", kw_only=True)  # by its place in chapter.toml
    name: str
    cases: list
    work: Callable
    facts: list[Callable]
    told: str | Callable
    hints: tuple[str, ...]
    errors: dict[str, str] = field(default_factory=dict)
    lost: str = "every rank has to make the same calls, in the same order"
    explain: Callable | None = None
    needs: tuple[str, ...] = ()
    lab: str | None = None
    warm: bool = False
    timeout: float | None = None
    known: Callable = lambda case, place: {}
    found: Callable | None = None
    rare: tuple[str, ...] = ()

    def examine(self, answer):
        try:
            yield from self.judged(answer)
        except Wrong as wrong:
            if is_generator(answer) and wrong.why not in self.errors.values():
                wrong.why = YIELDS
            raise

    def judged(self, answer):
        """Yield what is right in each case; raises `Wrong` at the first that is not."""
        trials, right = self.trials(answer), []
        for trial in trials:
            try:
                lines = self.judge(trial)
            except Wrong as wrong:
                seen = [*right, trial, *self.those_left(trials)]
                alike = (t.case for t in seen if same_kind(t, trial) and self.is_right(t))
                why = mistake_between(self.facts, seen, trial, wrong.why)
                wrong.why = why or wrong.why or where_right(alike)
                raise
            right.append(trial)
            yield f"{trial.case}: {self.told(trial) if callable(self.told) else self.told}"
            yield from lines
        for name in self.rare:
            if all(trial.of(name) is None for trial in right):
                raise Wrong(str(right[-1].case), f"nothing has been told of: {name}", NOT_TOLD)

    def those_left(self, trials):
        """Yield the trials to come; in the last one of all an answer may fail."""
        with contextlib.suppress(Wrong):
            yield from trials

    def is_right(self, trial) -> bool:
        with contextlib.suppress(Wrong):
            self.judge(trial)
            return True
        return False

    def trials(self, answer):
        """Yield what came of each case, in order; raises `Wrong` where an answer fails."""
        worlds_passed = False
        if self.warm:
            there(warm_up, answer)
        for found in try_cases(
            self.work, answer, self.cases, self.why_it_failed, timeout=self.timeout
        ):
            yield Trial(
                found.case, self.with_known(found.case, found.values),
                found.calls, found.sent_bytes, found.received_bytes, worlds_passed,
            )  # fmt: skip
            worlds_passed = worlds_passed or not found.case.is_group

    def with_known(self, case, values) -> list[SimpleNamespace]:
        known = (self.known(case, place) for place in range(len(values)))
        return [SimpleNamespace(**of_rank | more) for of_rank, more in zip(values, known)]

    def judge(self, trial) -> list[str]:
        """What the facts say; raises `Wrong` at the first that does not hold."""
        lines = [line for fact in self.facts if (line := fact(trial))]
        for name in self.found(trial.case) if self.found else self.found_always():
            if trial.of(name) is None:
                raise Wrong(str(trial.case), f"nothing has been told of: {name}", NOT_TOLD)
        return lines

    def found_always(self) -> list[str]:
        names = [fact.name for fact in self.facts if isinstance(fact, Equals)]
        return [name for name in names if name not in self.rare]

    def why_it_failed(self, case, error) -> str:
        told = said_by(self.explain, case, error) if self.explain else ""
        known = (why for words, why in self.errors.items() if words in str(error))
        return told or why_ended(error) or next(known, self.why_lost(case, error))

    def why_lost(self, case, error) -> str:
        """What it means that ranks do not meet; in a group it may mean more, see on_ranks.told."""
        if isinstance(error, HangError):
            if any(place and not place.operation for place in error.waits.values()):
                return TOO_LONG
        elif "gloo" not in str(error):
            return ""
        has_worlds = any(not each.is_group for each in self.cases)
        return "" if case.is_group and has_worlds else self.lost


def why_ended(error) -> str:
    """Of an answer that ends its process, by itself."""
    ends = ("raised SystemExit", "ended with exit code")
    return EXIT if any(words in str(error) for words in ends) else ""


def same_kind(a, b) -> bool:
    """Whether two trials have found the same: one of memory tells nothing of numbers."""
    return vars(a[0]).keys() == vars(b[0]).keys()
