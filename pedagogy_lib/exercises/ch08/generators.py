"""Schedules that learners write: exercises 8.1 and 8.4. Checked by rule, without ranks."""

from itertools import islice

from ...basics.units import counted
from ...course.checking import Wrong
from ...schedules.rules import check_schedule
from ...schedules.timelines import LABELS, ScheduleError, simulate, text_of
from ..kit.outcomes import outcome_of

# ---- What a learner's function gives -----------------------------------------------------------

NO_ACTIONS = "give each action with `yield`; or return a list of all of them"
ONE_ACTION = "`return` ends the function with the first action: `yield` gives it, and goes on"
ENDLESS = "there is a loop that never ends: yield each action once"
TEXT = 'an action is an Action("F", 0); F0 is only how it prints itself'
PLAIN = 'give an Action("F", 0): a pipeline asks for action.kind, so a plain tuple is not enough'
SEVERAL = "yield one action at a time; `yield from` does so for all of a list"
KIND_FIRST = 'the kind comes first, then the micro-batch: Action("F", 0)'
PARTS = (
    f"a kind is one of {', '.join(LABELS)}; micro-batch and chunk are whole numbers, so divide "
    "with //, not with /"
)
ONE_CHUNK = (
    "the third part is the chunk: with which of this rank's pieces of the model. Each rank has "
    "one, number 0, and that is what Action takes if you leave it out"
)
ERRORS = {
    "'microbatch'": 'an action has a kind and a micro-batch: Action("F", 0)',
    "interpreted as an integer": "micro-batches are counted in whole numbers: //, not /",
}


def rows_from(case, answer, ranks, microbatches) -> list[list]:
    """Each rank's actions, all of one chunk; raises `Wrong` where they are something else."""
    return [
        row_from(f"{case}, rank {rank}", answer, rank, ranks, microbatches) for rank in range(ranks)
    ]


def row_from(case, answer, rank, ranks, microbatches) -> list:
    value = value_of(case, answer, rank, ranks, microbatches)
    if is_action(value):
        raise Wrong(case, f"it gives {value!r}, and no more", ONE_ACTION)
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise Wrong(case, f"it gives {value!r:.60}", NO_ACTIONS)
    most = 10 * microbatches + 10
    row = value_of(case, lambda: list(islice(value, most)))
    if len(row) == most:
        raise Wrong(case, f"after {most} actions it still goes on", ENDLESS)
    for number, action in enumerate(row, 1):
        need_action(case, f"number {number} is {action!r:.60}", action)
        if action.chunk:
            raise Wrong(case, f"number {number} is {action!r}", ONE_CHUNK)
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
    if isinstance(action, str):
        raise Wrong(case, what, TEXT)
    if not is_action(action):
        several = hasattr(action, "__iter__") and not isinstance(action, tuple)
        raise Wrong(case, what, SEVERAL if several else PLAIN)
    kind, i, chunk = action
    if isinstance(kind, int) and isinstance(i, str):
        raise Wrong(case, what, KIND_FIRST)
    if kind not in [*LABELS] or not isinstance(i, int) or not isinstance(chunk, int):
        raise Wrong(case, what, PARTS)


# ---- 8.1 and 8.4: whole schedules --------------------------------------------------------------

FIRST = [(4, [8]), (4, [2])]  # ranks and numbers of micro-batches; one line for each
OTHERS = [(ranks, range(1, 17)) for ranks in (1, 2, 3, 4, 8)]


def examine_gpipe(answer):
    yield from examine_schedule(answer, rows_of_gpipe, why_gpipe)


def examine_one_f_one_b(answer):
    yield from examine_schedule(answer, rows_in_memory, why_one_f_one_b)


def examine_schedule(answer, truth, why):
    """Try a schedule on all sizes.

    truth  takes ranks and micro-batches; returns the right rows
    why    takes wrong rows, ranks and micro-batches; says which misconception they are, or ""
    """
    for ranks, numbers in FIRST + OTHERS:
        lines = [judge(answer, ranks, m, truth(ranks, m), why) for m in numbers]
        many = f"{told_case(ranks, f'{numbers[0]} to {numbers[-1]}')}: all are right"
        yield lines[0] if len(lines) == 1 else many


def told_case(ranks, microbatches) -> str:
    return f"{counted(ranks, 'rank')}, {counted(microbatches, 'micro-batch')}"


def judge(answer, ranks, m, wanted, why) -> str:
    case = told_case(ranks, m)
    rows = rows_from(case, answer, ranks, m)
    if rows != wanted:
        what = offence(rows, m) or first_difference(rows, wanted)
        raise Wrong(case, what, why(rows, ranks, m))
    timeline = simulate(rows)
    return f"{case}: at most {timeline.most_kept} kept, {timeline.idle_share:.1%} of the time idle"


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


def told(row) -> str:
    return " ".join(text_of(*action) for action in row) or "nothing"


def rows_of_gpipe(ranks, m):
    every = [(kind, i, 0) for i in range(m) for kind in "BF"]
    return [sorted(every, key=lambda action: (action[0] != "F", action[1]))] * ranks


def rows_in_memory(ranks, m):
    """Forwards as early as the memory of 1F1B allows: min(m, ranks - rank) micro-batches."""
    rows = []
    for rank in range(ranks):
        row, done = [], {"F": 0, "B": 0}
        while done["B"] < m:
            is_full = done["F"] - done["B"] == min(m, ranks - rank) or done["F"] == m
            kind = "B" if is_full else "F"
            row.append((kind, done[kind], 0))
            done[kind] += 1
        rows.append(row)
    return rows


def numbers_of(row, kind) -> list[int]:
    """The micro-batches that it does this with, in its order."""
    return [i for k, i, _ in row if k == kind]


FORWARDS_ALONE = "there are forwards, and nothing goes back: a schedule needs a B for each F"
FROM_ONE = "micro-batches are counted from 0 on: 0, 1, …, microbatches - 1"
BELOW_ZERO = "does a `range` begin below 0, or a difference end there?"
HALVES = (
    "the backward is in two halves here; that is for the zero bubble, further below. Here it is "
    'one action, "B"'
)
BY_RANKS = "there are as many as there are ranks: the loop has to go over the micro-batches"
NAIVE = (
    "each micro-batch goes back before the next one goes forward: only one rank at a time has "
    "anything to do. That is `naive`"
)
REVERSED = (
    "the backwards come in the opposite order. That is a GPipe, too, with the same bubble and the "
    "same memory; but asked is both in order, 0 first, so that all schedules can be compared"
)
GPIPE = (
    "all forwards come before the first backward: this is GPipe, and every rank keeps all "
    "micro-batches. After the warm-up, each forward is followed by a backward"
)
EARLY_BACKWARDS = "some backwards come before the last forward: that is for exercise 8.4"


def why_any(rows, ranks, m) -> str:
    """What may be wrong with any schedule."""
    if any(kind in "IW" for row in rows for kind, _, _ in row):
        return HALVES
    if any(i < 0 for row in rows for _, i, _ in row):
        return BELOW_ZERO
    if not any(numbers_of(row, "B") for row in rows):
        return FORWARDS_ALONE
    numbers = [sorted(numbers_of(row, kind)) for row in rows for kind in "FB"]
    if all(of == [*range(1, m + 1)] for of in numbers):
        return FROM_ONE
    return BY_RANKS if ranks != m and all(of == [*range(ranks)] for of in numbers) else ""


def why_gpipe(rows, ranks, m) -> str:
    why = why_any(rows, ranks, m)
    if why:
        return why
    wanted = rows_of_gpipe(ranks, m)
    if rows == [[(kind, i, 0) for i in range(m) for kind in "FB"]] * ranks:
        return NAIVE
    if rows == [row[:m] + row[m:][::-1] for row in wanted]:
        return REVERSED
    complete = all(sorted(row) == sorted(right) for row, right in zip(rows, wanted))
    return EARLY_BACKWARDS if complete and any(leads(row) < m for row in rows) else ""


def leads(row) -> int:
    """How many forwards come before anything else."""
    return next((n for n, (kind, _, _) in enumerate(row) if kind != "F"), len(row))


def why_one_f_one_b(rows, ranks, m) -> str:
    if any(i >= m for row in rows for i in numbers_of(row, "F")) and m < ranks:
        return TOO_FEW_TO_WARM_UP
    if any(i < 0 for row in rows for i in numbers_of(row, "F")):
        return NEGATIVE
    why = why_any(rows, ranks, m)
    if why:
        return why
    found, right = [leads(row) for row in rows], [min(m, ranks - rank) for rank in range(ranks)]
    return why_warm_up(found, ranks, m) or (
        why_backwards(rows, rows_in_memory(ranks, m), m) if found == right else ""
    )


def why_warm_up(found, ranks, m) -> str:
    """found: with how many forwards each rank begins, its warm-up and one more."""
    if not all(found):
        return BACKWARD_FIRST
    for why, begins in WARM_UPS.items():
        if found == [min(m, begins(rank, ranks)) for rank in range(ranks)]:
            return why
    if m < 2 or ranks < 2:
        return ""
    if len(set(found)) == 1:
        return GPIPE if found[0] == m else ALIKE if found[0] > 1 else NO_WARM_UP
    return WRONG_WAY if found == sorted(found) else ""


# {sentence: with how many forwards a rank begins, if there are enough of them}
WARM_UPS = {
    "one forward too many, so one micro-batch too many is kept. `ranks - rank` counts this rank, "
    "too: after it there are ranks - 1 - rank": lambda rank, ranks: ranks - rank + 1,
    "one forward too few, and the ranks wait for each other. After this rank there are "
    "ranks - 1 - rank": lambda rank, ranks: max(1, ranks - 1 - rank) if ranks > 2 else 0,
    "a warm-up twice as long as it has to be: it would fill the pipeline as well, and twice as "
    "much would be kept. As many as there are ranks after this one are enough":
        lambda rank, ranks: 2 * (ranks - 1 - rank) + 1 if ranks > 1 else 0,
    "a warm-up twice as long as it has to be, and this rank is counted, too: as many as there are "
    "ranks after this one are enough": lambda rank, ranks: 2 * (ranks - rank) + 1,
}  # fmt: skip
NO_WARM_UP = (
    "each rank goes back right after its first forward. Only the last one can: the others wait "
    "for it, and do nothing meanwhile. First each rank warms up, with as many forwards as there "
    "are ranks after it"
)
ALIKE = (
    "all ranks warm up alike. A rank has to warm up only with as many forwards as there are ranks "
    "after it: the last one with none"
)
WRONG_WAY = (
    "the wrong way round: the last rank has the longest warm-up. A rank waits for what comes back "
    "to it, which takes longest for the first: it warms up with as many forwards as there are "
    "ranks after it"
)
NEGATIVE = (
    "the warm-up is below 0 on the last rank: after it come no ranks, so ranks - 1 - rank is 0"
)
TOO_FEW_TO_WARM_UP = (
    "a batch may have fewer micro-batches than the warm-up would take: it takes at most all of "
    "them, min(…, microbatches)"
)
BACKWARD_FIRST = (
    "after the warm-up the forward comes first, then the backward: one F, one B. The last rank "
    "has no warm-up, and nothing to go back with before its first forward"
)
NOT_ALL_BACK = (
    "some micro-batches never go back. When the last forward is done, as many as the warm-up had "
    "are still kept: their backwards are the cool-down"
)
NEWEST = (
    "the backward of the newest micro-batch comes first. It goes forward on the ranks after this "
    "one before anything comes back, and the oldest one has been on its way for longest: after "
    "forward i of the steady part comes backward i - warm_up"
)
COOL_DOWN = (
    "the cool-down begins with the wrong number: in the steady part microbatches - warm_up "
    "backwards are done already, so the next one is microbatches - warm_up"
)


def why_backwards(rows, wanted, m) -> str:
    """Of schedules whose warm-up is right."""
    for row, right in zip(rows, wanted):
        got = numbers_of(row, "B")
        last_forward = max(n for n, (kind, _, _) in enumerate(row) if kind == "F")
        steady = sum(kind == "B" for kind, _, _ in row[:last_forward])
        if got == list(range(len(got))) and len(got) < m:
            return NOT_ALL_BACK
        if got[:steady] != list(range(steady)):
            return NEWEST
        if got != list(range(m)):
            return COOL_DOWN
        if row != right:
            return GPIPE if steady == 0 else ""
    return ""
