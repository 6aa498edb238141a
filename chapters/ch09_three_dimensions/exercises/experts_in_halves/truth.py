"""The right results, and the results of known mistakes."""

import torch

from .cases import compute, rows_of


def truth(trial, place) -> list:
    """Return what each half becomes: every row through the experts of the rank that it is for."""
    found = []
    for number, counts in enumerate(trial.case.args):
        parts = rows_of(trial.case, number, place).split(list(counts[place]))
        found.append(torch.cat([compute(x, number, rank) for rank, x in enumerate(parts)]))
    return found


def mistakes(trial, place) -> dict:
    halves = range(len(trial.case.args))
    right, rows = truth(trial, place), [rows_of(trial.case, k, place) for k in halves]
    at_home = [compute(x, k, place) for k, x in enumerate(rows)]
    return {
        "the halves come back in another order: the first one is first": right[::-1],
        "these rows went there and back, and through no expert: back takes what the experts "
        "return": rows,
        "these rows went through this rank's own experts: each row is for an expert of another "
        "rank, perhaps, and the experts take what has come": at_home,
        "all halves are one tensor; asked is a list with one for each half": [torch.cat(right)],
    }  # fmt: skip


def order_of(first, number, where, second, other):
    """Return a predicate of events: does one come before, or after, another one?

    It is true if one of the two never happens, which other facts judge.
    """

    def holds(events):
        a, b = [first, number], [second, other]
        if a not in events or b not in events:
            return True
        return (events.index(a) < events.index(b)) == (where == "before")

    return holds


def faults(trial):
    for place, of in enumerate(trial):
        who, halves = trial.name_of_rank(place), range(len(trial.case.args))
        missing = [(name, k) for name in ("there", "experts", "back") for k in halves
                   if [name, k] not in of.events]  # fmt: skip
        if of.changed or of.changed_on_the_way:
            yield (
                f"{who}: rows have changed while they were sent",
                "what is being sent stays as it is until it has arrived: new tensors for results",
            )
        if missing:
            name, k = missing[0]
            yield (
                f"{who}: half {k}: {name} is never called",
                "each half is sent there, goes through the experts, and is sent back",
            )
        waits = [name for name, _ in of.events if name == "wait there"]
        if len(waits) < len(halves) and not of.nans:
            yield (
                f"{who}: {len(waits)} of {len(halves)} halves have been waited for",
                "a request that nobody waits for may still be under way when its tensor is reused",
            )


def unfinished(trial):
    """Complain of halves that are still on their way back."""
    for place, of in enumerate(trial):
        late = [number for number, x in enumerate(of.outputs) if x.isnan().any()]
        if late:
            yield (
                f"{trial.name_of_rank(place)}: half {late[0]} has rows that are still nan",
                "not all ways back have been waited for: what a transfer brings is in its rows "
                "only after wait()",
            )


def describe_outputs(trial, place) -> str:
    got, wanted = trial[place].outputs, truth(trial, place)
    who = trial.name_of_rank(place)
    if len(got) != len(wanted):
        return f"{who}: expected {len(wanted)} tensors, got {len(got)}"
    for number, (x, y) in enumerate(zip(got, wanted)):
        if x.shape != y.shape or not x.equal(y):
            first = x.flatten()[:3].tolist()
            return f"{who}: half {number} begins with {first}, expected {y.flatten()[:3].tolist()}"
    return ""
