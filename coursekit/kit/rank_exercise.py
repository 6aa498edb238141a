"""Exercises whose answer is tried on ranks: all cases in one launch, and facts about each."""

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib.basics.errors import HangError
from pedagogy_lib.ranks.launcher import launch

from ..answers.remote_answer import call_next_to_answer
from ..protocol import Wrong
from .diagnoses import run_diagnosis
from .facts import Equals
from .formula import ALWAYS_THE_SAME, PILED_UP, where_right
from .rank_trials import NOT_TOLD, Trial, try_cases
from .results import EXIT, is_number

TOO_LONG = (
    "this takes too long. Is there a call, or a round of a loop, for each element of a tensor? One "
    "call for each tensor is enough. Or is there a loop that never ends?"
)


@dataclass(frozen=True, eq=False)
class RankExercise:
    """An exercise whose answer communicates, or works on the ranks' data.

    name     the name of the learner's function or class
    cases    the cases in the order of their trials; each has `ranks`, `is_group` and a text, like a
             `RankCase`
    work     called on each rank of a case, work(answer, group, case): {name: what it has found}.
             Bytes that it sends under `measure_answer()` count as sent by the answer
    facts    each takes a `Trial`, and raises `Wrong`; see facts.py
    right    the line about a case in which all facts hold, or a function of the trial
    hints    two to four sentences, from vague to nearly the solution
    lab      the lab that the function is in; without one, it is in a cell of the part
    errors   {words of an exception: what they mean here}
    on_hang  the diagnosis if ranks wait for each other forever, or lose each other
    explain  takes a case and an error, and returns the diagnosis; goes before `errors`
    needs    names of exercises that this one is built on: see Exercise
    warm     whether ranks need an optimizer or a DDP, whose first use imports for seconds
    timeout  seconds until all cases together count as hung, if it is not that of every check
    known    takes a case and a place, and returns {name: a value known without asking a rank}, such
             as the inputs of the truth. It replaces a rank's value of that name
    found    takes a case, and returns the names under which ranks find something there if all is
             right; by default, those of each Equals. Facts say nothing about missing values
    """

    number: str = field(default="", kw_only=True)  # from its place in chapter.toml
    name: str
    cases: list
    work: Callable
    facts: list[Callable]
    right: str | Callable
    hints: tuple[str, ...]
    errors: dict[str, str] = field(default_factory=dict)
    on_hang: str = "every rank has to make the same calls, in the same order"
    explain: Callable | None = None
    needs: tuple[str, ...] = ()
    lab: str | None = None
    warm: bool = False
    timeout: float | None = None
    known: Callable = lambda case, place: {}
    found: Callable | None = None

    def examine(self, answer):
        """Yield the lines of each right case; raise `Wrong` at the first wrong one."""
        try:
            yield from self.judge_trials(answer)
        except Wrong as wrong:
            if is_generator(answer) and wrong.why not in self.errors.values():
                wrong.why = YIELDS
            raise

    def judge_trials(self, answer):
        """Yield the lines of each right case; raise `Wrong` at the first wrong one."""
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
            yield f"{trial.case}: {self.right(trial) if callable(self.right) else self.right}"
            yield from lines

    def those_left(self, trials):
        """Yield the remaining trials, up to one in which the answer fails."""
        with contextlib.suppress(Wrong):
            yield from trials

    def is_right(self, trial) -> bool:
        with contextlib.suppress(Wrong):
            self.judge(trial)
            return True
        return False

    def trials(self, answer):
        """Yield the trial of each case, in order; raise `Wrong` where an answer fails."""
        worlds_passed = False
        if self.warm:
            call_next_to_answer(warm_up, answer)
        for found in try_cases(
            self.work, answer, self.cases, self.why_it_failed, timeout=self.timeout
        ):
            yield Trial(
                found.case, self.add_known_values(found.case, found.values),
                found.calls, found.sent_bytes, found.received_bytes, worlds_passed,
            )  # fmt: skip
            worlds_passed = worlds_passed or not found.case.is_group

    def add_known_values(self, case, values) -> list[SimpleNamespace]:
        known = (self.known(case, place) for place in range(len(values)))
        return [SimpleNamespace(**of_rank | more) for of_rank, more in zip(values, known)]

    def judge(self, trial) -> list[str]:
        """Return the lines of the facts; raise `Wrong` at the first that does not hold."""
        lines = [line for fact in self.facts if (line := fact(trial))]
        for name in self.found(trial.case) if self.found else self.list_required_names():
            if trial.collect_values(name) is None:
                raise Wrong(str(trial.case), f"nothing has been told of: {name}", NOT_TOLD)
        return lines

    def list_required_names(self) -> list[str]:
        return [fact.name for fact in self.facts if isinstance(fact, Equals)]

    def why_it_failed(self, case, error) -> str:
        told = run_diagnosis(self.explain, case, error) if self.explain else ""
        known = (why for words, why in self.errors.items() if words in str(error))
        return told or why_ended(error) or next(known, self.why_lost(case, error))

    def why_lost(self, case, error) -> str:
        """Return the diagnosis for ranks that do not meet.

        In a group, they may have another reason: see `rank_trials.explain_failure`.
        """
        if isinstance(error, HangError):
            if any(line and not line.operation for line in error.waits.values()):
                return TOO_LONG
        elif "gloo" not in str(error):
            return ""
        has_worlds = any(not each.is_group for each in self.cases)
        return "" if case.is_group and has_worlds else self.on_hang


def why_ended(error) -> str:
    """Return the diagnosis of an answer that ends its own process, or ""."""
    ends = ("raised SystemExit", "ended with exit code")
    return EXIT if any(words in str(error) for words in ends) else ""


def same_kind(a, b) -> bool:
    """Return whether two trials have found the same names: memory says nothing about numbers."""
    return vars(a[0]).keys() == vars(b[0]).keys()


YIELDS = (
    "a function with `yield` in it gives a generator: nothing of it runs before somebody goes "
    "through that. Give the result back with `return`"
)


def mistake_between(facts, trials, failed, why) -> str:
    """Return a mistake that explains the values of all cases, or "".

    Results that pile up fit case by case, so this comes first. Results that are the same in all
    cases say less than a mistake that fits in one: then `why` stays.

    Only the fact that fails for `failed` counts, because another one may be the same in all cases
    because of that very mistake.
    """
    told = next((fact for fact in facts if is_wrong(fact, failed)), None)
    if not isinstance(told, Equals):
        return ""
    kept = run_diagnosis(diagnose_carryover, told, trials)
    known = (run_diagnosis(told.mistakes, failed, k, otherwise={}) for k in range(failed.n))
    return "" if kept == ALWAYS_THE_SAME and any(why in each for each in known) else kept


def is_wrong(fact, trial) -> bool:
    try:
        fact(trial)
    except Wrong:
        return True
    return False


def is_generator(answer) -> bool:
    return call_next_to_answer(is_generator_here, answer)


def is_generator_here(answer) -> bool:
    lab = getattr(answer, "lab", None)
    function = answer if lab is None else getattr(lab, answer.__name__, None)
    return inspect.isgeneratorfunction(function)


def diagnose_carryover(fact, trials) -> str:
    """Return a sentence if three cases or more repeat the first, right value, or add to it."""
    found = [(trial, trial.collect_values(fact.name)) for trial in trials]
    found = [(trial, values[0]) for trial, values in found if values]
    if len(found) < 3:
        return ""
    wanted = [fact.truth(trial, 0) for trial, _ in found]
    got = [value for _, value in found]
    others = [value for value in wanted if not fact.same(value, wanted[0])]
    if len(others) < 2 or not fact.same(got[0], wanted[0]) or all(map(fact.same, got, wanted)):
        return ""
    if all(fact.same(value, got[0]) for value in got):
        return ALWAYS_THE_SAME
    sums = [wanted[0], *map(sum_of, got, wanted[1:])]
    return PILED_UP if all(map(fact.same, got, sums)) else ""


def sum_of(before, wanted):
    """Return the value that goes on from `before`, or None if there is none."""
    if isinstance(before, dict) and isinstance(wanted, dict) and before.keys() == wanted.keys():
        return {key: sum_of(before[key], wanted[key]) for key in wanted}
    if isinstance(before, torch.Tensor) and isinstance(wanted, torch.Tensor):
        return before + wanted if before.shape == wanted.shape else None
    are_lists = isinstance(before, list) and isinstance(wanted, list)
    return before + wanted if are_lists or (is_number(before) and is_number(wanted)) else None


def warm_up(answer=None):
    """Make a first DDP next to an answer: it imports for seconds, and a case would hang."""
    launch(make_ddp, world_size=1, device="cpu")


def make_ddp():
    DistributedDataParallel(nn.Linear(1, 1))
