"""The right results, and the results of known mistakes."""

from ..shared.actions import Action


def build_row(rank, ranks, m):
    """Return a rank's row from a text of kinds, each of which counts its own micro-batches."""
    after, steady = ranks - 1 - rank, m - ranks + 1
    kinds = "F" * after + "FI" * rank + "FIW" * steady + "IW" * after + "W" * rank
    return [Action(kind, kinds[:k].count(kind)) for k, kind in enumerate(kinds)]


def build_1f1b_row(rank, ranks, m, back=lambda i: [Action("B", i)]):
    warm_up = min(ranks - 1 - rank, m)
    row = [Action("F", i) for i in range(warm_up)]
    for i in range(m):
        row += [Action("F", i + warm_up)] * (i + warm_up < m) + back(i)
    return row


def pair_halves(rank, ranks, m):
    return build_1f1b_row(rank, ranks, m, lambda i: [Action("I", i), Action("W", i)])


def defer_weight_halves(rank, ranks, m):
    row = build_1f1b_row(rank, ranks, m, lambda i: [Action("I", i)])
    return row + [Action("W", i) for i in range(m)]


def put_off(how_far):
    """Return 1F1B in halves, where a rank puts W off by how_far(rank, ranks) micro-batches."""

    def schedule(rank, ranks, m):
        off = min(how_far(rank, ranks), m)
        row = build_1f1b_row(rank, ranks, m, lambda i: [Action("I", i), *back(i, off)])
        return row + [Action("W", i) for i in range(m - off, m)]

    def back(i, off):
        return [Action("W", i - off)] * (i >= off)

    return schedule


def defer_after_forwards(rank, ranks, m):
    """Return a row with W at once in the steady part, and then every I before the remaining W."""
    row = pair_halves(rank, ranks, m)
    cut = row.index(Action("F", m - 1))
    return row[: cut + 1] + sorted(row[cut + 1 :], key=lambda action: action.kind == "W")


MISTAKES = [
    ("this is 1F1B. A rank sends a gradient back only when the whole B is done. The rank before "
     "waits for the half I alone", build_1f1b_row),
    ("a good beginning: each rank sends the gradient back before it computes W. But a W still "
     "stands in the way of the next I, for which the ranks before wait. Which ranks have memory "
     "to put their W off?", pair_halves),
    ("all W are at the end. Until then a rank keeps every micro-batch: what W needs is kept until "
     "W is done", defer_weight_halves),
    ("the first ranks put their W off most, and they keep most already. Look at what each rank "
     "keeps under 1F1B: who has room?", put_off(lambda rank, ranks: ranks - 1 - rank)),
    ("every rank puts its W off by as many micro-batches. Under 1F1B the first rank has no room, "
     "and each further rank has room for one more", put_off(lambda rank, ranks: ranks - 1)),
    ("only one W is put off on each rank. The last ranks have room for more",
     put_off(lambda rank, ranks: min(rank, 1))),
    ("some W are put off, and the last ranks still have room for more",
     put_off(lambda rank, ranks: rank // 2)),
    ("where the forwards are done, a rank waits for each I. That time is free for its W: in "
     "turns, one I and one W", defer_after_forwards),
]  # fmt: skip
