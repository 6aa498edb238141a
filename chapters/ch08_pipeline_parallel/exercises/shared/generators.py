"""Exercises that ask for a schedule: rows from a learner's function, checked against rules."""

from collections.abc import Callable
from dataclasses import dataclass, field

from coursekit.kit import Formula, Wrong
from coursekit.kit.results import outcome_of
from pedagogy_lib.basics.units import format_count
from pedagogy_lib.schedules.rules import check_schedule
from pedagogy_lib.schedules.simulations import simulate
from pedagogy_lib.schedules.timelines import LABELS, ScheduleError, text_of

from .actions import Action, is_action, row_given
from .actions_truth import format_row

ERRORS = {
    "'microbatch'": 'an action has a kind and a micro-batch: Action("F", 0)',
    "recursion depth": "the function calls itself, and that has no end",
    "interpreted as an integer": "micro-batches are counted in whole numbers: //, not /",
}


def format_case(ranks, microbatches) -> str:
    return f"{format_count(ranks, 'rank')}, {format_count(microbatches, 'micro-batch')}"


def cases_of(*sizes) -> dict[str, list[tuple]]:
    return {format_case(*size): [size] for size in sizes}


class Rows:
    """The rows of a schedule for a number of ranks and micro-batches, and their features.

    leads   the number of forwards with which each rank begins
    F, B    the micro-batches of each rank's forwards and backwards, in its order
    kinds   the kinds of all actions of each rank, such as "FFBB"
    steady  the number of backwards before each rank's last forward
    """

    def __init__(self, rows, ranks, m):
        self.rows, self.ranks, self.m = rows, ranks, m
        self.kinds = ["".join(kind for kind, _, _ in row) for row in rows]
        self.leads = [len(kinds) - len(kinds.lstrip("F")) for kinds in self.kinds]
        self.steady = [kinds[: kinds.rfind("F")].count("B") for kinds in self.kinds]
        self.F, self.B = ([[i for k, i, _ in row if k == kind] for row in rows] for kind in "FB")

    def goes_on(self) -> bool:
        """Return whether each rank's row continues the row of the rank before, and is longer."""
        pairs = [*zip(self.rows, self.rows[1:])]
        return bool(pairs) and all(len(a) < len(b) and b[: len(a)] == a for a, b in pairs)

    def all_are(self, numbers) -> bool:
        return all(sorted(of) == [*numbers] for of in self.F + self.B)


BELOW_0 = (
    "micro-batches begin at 0: does a `range` begin below 0, or a difference end there?",
    lambda of: any(i < 0 for row in of.rows for _, i, _ in row),
)
SIGNS_OF_ANY = [
    ("each call begins anew: what the call for the rank before has left is still in the list",
     lambda of: of.goes_on()),
    ("each action comes as many times as there are ranks: a call gives the actions of one rank, "
     "the one that the argument `rank` names",
     lambda of: of.ranks > 1 and all(len(row) == 2 * of.m * of.ranks for row in of.rows)),
    ("each action comes twice: one forward and one backward for each micro-batch",
     lambda of: all(len(row) == 4 * of.m for row in of.rows)),
    ("it is the same number each time: the micro-batch is what the loop counts",
     lambda of: of.m > 1 and all(len({*done}) == 1 for done in of.F + of.B)),
    ("one micro-batch is left out, the last one: range(n) ends with n - 1",
     lambda of: of.m > 1 and of.all_are(range(of.m - 1))),
    ("there is one micro-batch too many: range(n) ends with n - 1, and they are counted from 0",
     lambda of: of.all_are(range(of.m + 1))),
    ("the backward is in two halves here; that is for the zero bubble, further below. Here it is "
     'one action, "B"', lambda of: {*"IW"} & {*"".join(of.kinds)}),
    BELOW_0,
    ("there are forwards, and nothing goes back: a schedule needs a B for each F",
     lambda of: "B" not in "".join(of.kinds)),
    ("micro-batches are counted from 0 on: 0, 1, …, microbatches - 1",
     lambda of: of.all_are(range(1, of.m + 1))),
    ("there are as many as there are ranks: the loop has to go over the micro-batches",
     lambda of: of.ranks != of.m and of.all_are(range(of.ranks))),
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Schedule(Formula):
    """An exercise whose answer takes (rank, ranks, micro-batches) and gives the rank's actions.

    cases     {case: [(ranks, micro-batches), …]}
    truth     a right answer. `mistakes` are wrong answers: one is reported if an answer has the
              same rows, or begins with as many forwards on all ranks, where that is wrong
    signs     [(the misconception, or a function of `Rows` that returns it; a function of `Rows`
              that returns whether they show it), …]
    faults    takes `Rows`; yields (error, diagnosis if no misconception is known). Without it,
              rows have to be those of `truth`
    """

    signs: list[tuple[str, Callable]] = field(default_factory=list)
    faults: Callable | None = None

    def calls_tried(self):
        """Return the arguments of each call of truth and mistakes, which take a rank, too."""
        sizes = [size for some in self.cases.values() for size in some]
        return [(rank, *size) for size in sizes for rank in range(size[0])]

    def examine(self, answer):
        for case, sizes in self.cases.items():
            for ranks, m in sizes:
                case_now = format_case(ranks, m)
                of = Rows(rows_from(case_now, answer, ranks, m), ranks, m)
                for what, why in self.faults_of(of):
                    raise Wrong(case_now, what, self.misconception(of) or why)
            timeline = simulate(of.rows)
            kept = f"at most {timeline.most_kept} kept, {timeline.idle_share:.1%} of the time idle"
            yield f"{case}: {kept if len(sizes) == 1 else 'all are right'}"

    def faults_of(self, of):
        wanted = self.make_rows(of.ranks, of.m)
        if what := offence(of.rows, of.m):
            yield what, ""
        elif self.faults:
            yield from self.faults(of)
        elif of.rows != wanted:
            rank = next(rank for rank, row in enumerate(wanted) if row != of.rows[rank])
            yield (
                f"rank {rank} does\n  {format_row(of.rows[rank])}\nexpected\n  "
                f"{format_row(wanted[rank])}",
                "",
            )

    def make_rows(self, ranks, m, schedule=None) -> list[list]:
        """Return the rows of all ranks by a schedule, that of `truth` by default."""
        return [list((schedule or self.truth)(rank, ranks, m)) for rank in range(ranks)]

    def misconception(self, of) -> str:
        size = of.ranks, of.m
        wrong = [
            (why, Rows(self.make_rows(*size, function), *size)) for why, function in self.mistakes
        ]
        known = [why for why, guess in wrong if guess.rows == of.rows]
        known += [why(of) if callable(why) else why for why, shows in self.signs if shows(of)]
        if of.leads != Rows(self.make_rows(*size), *size).leads:
            known += [why for why, guess in wrong if guess.leads == of.leads]
        return next(iter(known), "")


def offence(rows, m) -> str:
    """Return a sentence about the first rule that the rows break, or ""."""
    for rank, row in enumerate(rows):
        for action in row:
            if action.microbatch < 0:
                return f"rank {rank} does {text_of(*action)}: micro-batches begin at 0"
    try:
        check_schedule(rows, m)
    except ScheduleError as error:
        return str(error)
    return ""


# ---- Rows from a learner's function ---


def rows_from(case, answer, ranks, m) -> list[list]:
    """Return each rank's actions, all of one chunk; raise `Wrong` for anything else."""
    return [row_from(f"{case}, rank {rank}", answer, rank, ranks, m) for rank in range(ranks)]


def row_from(case, answer, rank, ranks, m) -> list:
    most = 10 * m + 10
    is_one_action, shown, row = value_of(case, row_given, answer, (rank, ranks, m), most)
    need(case, f"it gives {shown}, and no more", [
        (not is_one_action,
         "`return` ends the function with the first action: `yield` gives it, and goes on"),
        (row is not None, "give each action with `yield`; or return a list of all of them"),
    ])  # fmt: skip
    why = "there is a loop that never ends: yield each action once"
    need(case, f"after {most} actions it still goes on", [(len(row) < most, why)])
    row = [(restore_action(given), shown) for given, shown in row]
    for number, (action, shown) in enumerate(row, 1):
        need_action(case, f"number {number} is {shown}", action)
        need(case, f"number {number} is {shown}", [(
            not action.chunk,
            "the third part is the chunk: with which of this rank's pieces of the model. Each rank "
            "has one, number 0, and that is what Action takes if you leave it out",
        )])  # fmt: skip
    return [action for action, _ in row]


def restore_action(given):
    return Action(**given) if isinstance(given, dict) else given


def need(case, what, rules):
    """Raise `Wrong` at the first broken rule of [(whether it holds, the diagnosis if not), …]."""
    for holds, why in rules:
        if not holds:
            raise Wrong(case, what, why)


def value_of(case, function, *args):
    """Return the value of a call; raise `Wrong` if the call raises an exception."""
    outcome = outcome_of(function, *args)
    known = (why for words, why in ERRORS.items() if words in outcome.message)
    need(case, str(outcome), [(not outcome.error, next(known, ""))])
    return outcome.value


def need_action(case, what, action):
    """Raise `Wrong` unless `action` is an Action whose parts have the right types."""
    kind, i, chunk = action if is_action(action) else ("F", 0, 0)
    need(case, what, [
        (not isinstance(action, str), 'an action is an Action("F", 0); F0 is only how it prints '
         "itself"),
        (isinstance(action, tuple) or not hasattr(action, "__iter__"),
         "yield one action at a time; `yield from` does so for all of a list"),
        (action is not None, "nothing is to be given where a rank has nothing to do: it waits by "
         "itself"),
        (is_action(action),
         'give an Action("F", 0), not a plain tuple: a pipeline asks for action.kind'),
        (not (isinstance(kind, int) and isinstance(i, str)),
         'the kind comes first, then the micro-batch: Action("F", 0)'),
        (kind in [*LABELS] and isinstance(i, int) and isinstance(chunk, int),
         f"a kind is one of {', '.join(LABELS)}; micro-batch and chunk are whole numbers, so "
         "divide with //, not with /"),
    ])  # fmt: skip
