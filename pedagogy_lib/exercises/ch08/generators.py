"""Exercises that ask for a schedule: what a learner's function gives, checked by rule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from ...basics.units import counted
from ...course.checking import Wrong
from ...schedules.rules import check_schedule
from ...schedules.timelines import LABELS, ScheduleError, simulate, text_of
from ..kit import Formula
from ..kit.outcomes import outcome_of
from .actions import told

ERRORS = {
    "'microbatch'": 'an action has a kind and a micro-batch: Action("F", 0)',
    "interpreted as an integer": "micro-batches are counted in whole numbers: //, not /",
}


def told_case(ranks, microbatches) -> str:
    return f"{counted(ranks, 'rank')}, {counted(microbatches, 'micro-batch')}"


def cases_of(*sizes) -> dict[str, list[tuple]]:
    return {told_case(*size): [size] for size in sizes}


@dataclass(frozen=True, eq=False)
class Schedule(Formula):
    """An exercise whose answer gives a rank's actions, of the rank, how many there are, and m.

    cases     {case: [(ranks, m), …]}: how many ranks, and micro-batches
    truth     such a function; so are `mistakes`: each is told if an answer has the same rows, or
              begins with as many forwards on all ranks, where that is wrong
    signs     [(what it has misunderstood, how rows look that show it: takes rows, ranks, m), …]
    faults    takes rows, ranks and m; yields what is wrong, and what to say of it if nothing else
              is known. Without it, rows are to be those of `truth`
    """

    signs: list[tuple[str, Callable]] = field(default_factory=list)
    faults: Callable | None = None

    def examine(self, answer):
        for case, sizes in self.cases.items():
            for ranks, m in sizes:
                rows = rows_from(told_case(ranks, m), answer, ranks, m)
                for what, why in self.faults_of(rows, ranks, m):
                    told = self.misconception(rows, ranks, m) or why
                    raise Wrong(told_case(ranks, m), what, told)
            yield f"{case}: {summary(rows) if len(sizes) == 1 else 'all are right'}"

    def faults_of(self, rows, ranks, m):
        what = offence(rows, m)
        if what:
            yield what, ""
        elif self.faults:
            yield from self.faults(rows, ranks, m)
        elif rows != self.right(ranks, m):
            yield first_difference(rows, self.right(ranks, m)), ""

    def right(self, ranks, m) -> list[list]:
        return rows_of(self.truth, ranks, m)

    def misconception(self, rows, ranks, m) -> str:
        mistakes = [(why, rows_of(wrong, ranks, m)) for why, wrong in self.mistakes]
        begins = leads(rows) if leads(rows) != leads(self.right(ranks, m)) else None
        known = [why for why, wrong in mistakes if wrong == rows]
        known += [why for why, shows in self.signs if shows(rows, ranks, m)]
        known += [why for why, wrong in mistakes if leads(wrong) == begins]
        return next(iter(known), "")


def rows_of(schedule, ranks, m) -> list[list]:
    return [list(schedule(rank, ranks, m)) for rank in range(ranks)]


def leads(rows) -> list[int]:
    """With how many forwards each rank begins."""
    kinds = ["".join(kind for kind, _, _ in row) for row in rows]
    return [len(of_rank) - len(of_rank.lstrip("F")) for of_rank in kinds]


def numbers_of(row, kind) -> list[int]:
    """The micro-batches that it does this with, in its order."""
    return [i for k, i, _ in row if k == kind]


def all_numbers(rows) -> list[list[int]]:
    return [sorted(numbers_of(row, kind)) for row in rows for kind in "FB"]


def steady(row) -> int:
    """How many backwards come before the last forward."""
    kinds = "".join(kind for kind, _, _ in row)
    return kinds[: kinds.rfind("F")].count("B")


SIGNS_OF_ANY = [
    ("the backward is in two halves here; that is for the zero bubble, further below. Here it is "
     'one action, "B"',
     lambda rows, ranks, m: any(kind in "IW" for row in rows for kind, _, _ in row)),
    ("micro-batches begin at 0: does a `range` begin below 0, or a difference end there?",
     lambda rows, ranks, m: any(i < 0 for row in rows for _, i, _ in row)),
    ("there are forwards, and nothing goes back: a schedule needs a B for each F",
     lambda rows, ranks, m: not any(numbers_of(row, "B") for row in rows)),
    ("micro-batches are counted from 0 on: 0, 1, …, microbatches - 1",
     lambda rows, ranks, m: all(of == [*range(1, m + 1)] for of in all_numbers(rows))),
    ("there are as many as there are ranks: the loop has to go over the micro-batches",
     lambda rows, ranks, m: ranks != m and all(of == [*range(ranks)] for of in all_numbers(rows))),
]  # fmt: skip


def summary(rows) -> str:
    timeline = simulate(rows)
    return f"at most {timeline.most_kept} kept, {timeline.idle_share:.1%} of the time idle"


def offence(rows, m) -> str:
    """The first rule that is broken, or ""."""
    for rank, row in enumerate(rows):
        for action in row:
            if action.microbatch < 0:
                return f"rank {rank} does {text_of(*action)}: micro-batches begin at 0"
    try:
        check_schedule(rows, m)
    except ScheduleError as error:
        return str(error)
    return ""


def first_difference(rows, wanted) -> str:
    rank = next(rank for rank, pair in enumerate(zip(rows, wanted)) if pair[0] != pair[1])
    return f"rank {rank} does\n  {told(rows[rank])}\nexpected\n  {told(wanted[rank])}"


# ---- What a learner's function gives ---


def rows_from(case, answer, ranks, m) -> list[list]:
    """Each rank's actions, all of one chunk; raises `Wrong` where they are something else."""
    return [row_from(f"{case}, rank {rank}", answer, rank, ranks, m) for rank in range(ranks)]


def row_from(case, answer, rank, ranks, m) -> list:
    value = value_of(case, answer, rank, ranks, m)
    if is_action(value):
        why = "`return` ends the function with the first action: `yield` gives it, and goes on"
        raise Wrong(case, f"it gives {value!r}, and no more", why)
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        why = "give each action with `yield`; or return a list of all of them"
        raise Wrong(case, f"it gives {value!r:.60}", why)
    most = 10 * m + 10
    row = value_of(case, lambda: list(islice(value, most)))
    if len(row) == most:
        why = "there is a loop that never ends: yield each action once"
        raise Wrong(case, f"after {most} actions it still goes on", why)
    for number, action in enumerate(row, 1):
        need_action(case, f"number {number} is {action!r:.60}", action)
        if action.chunk:
            why = (
                "the third part is the chunk: with which of this rank's pieces of the model. Each "
                "rank has one, number 0, and that is what Action takes if you leave it out"
            )
            raise Wrong(case, f"number {number} is {action!r}", why)
    return row


def value_of(case, function, *args):
    """What a call gives; raises `Wrong` if it raises something."""
    outcome = outcome_of(function, *args)
    if outcome.error:
        why = next((why for words, why in ERRORS.items() if words in outcome.message), "")
        raise Wrong(case, str(outcome), why)
    return outcome.value


def is_action(value) -> bool:
    return getattr(value, "_fields", ()) == ("kind", "microbatch", "chunk")


def need_action(case, what, action):
    """Raise `Wrong` unless it is an Action, with parts of the right types."""
    why = why_no_action(action)
    if why:
        raise Wrong(case, what, why)


def why_no_action(action) -> str:
    if isinstance(action, str):
        return 'an action is an Action("F", 0); F0 is only how it prints itself'
    if hasattr(action, "__iter__") and not isinstance(action, tuple):
        return "yield one action at a time; `yield from` does so for all of a list"
    if not is_action(action):
        return 'give an Action("F", 0), not a plain tuple: a pipeline asks for action.kind'
    kind, i, chunk = action
    if isinstance(kind, int) and isinstance(i, str):
        return 'the kind comes first, then the micro-batch: Action("F", 0)'
    if kind in [*LABELS] and isinstance(i, int) and isinstance(chunk, int):
        return ""
    return (
        f"a kind is one of {', '.join(LABELS)}; micro-batch and chunk are whole numbers, so divide "
        "with //, not with /"
    )
