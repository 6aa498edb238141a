"""The right results, and the results of known mistakes."""

from ..shared.actions import Action, make_memory_schedule


def backwards_reversed(rank, ranks, m):
    row = [Action("F", i) for i in range(m)]
    return row + [Action("B", i) for _, i, _ in reversed(row)]


truth = make_memory_schedule(lambda rank, ranks, m: m)

MISTAKES = [
    ("each micro-batch goes back before the next one goes forward: only one rank at a time has "
     "anything to do. That is `naive`", make_memory_schedule(lambda rank, ranks, m: 1)),
    ("the backwards come in the opposite order. That is a GPipe, too, with the same bubble and "
     "the same memory; but asked is both in order, 0 first, so that all schedules can be "
     "compared", backwards_reversed),
]  # fmt: skip
