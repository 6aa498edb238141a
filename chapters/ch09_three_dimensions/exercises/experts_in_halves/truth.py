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


ORDERS = [  # (event of a half, before this event of a half, what if not, why): "+" is the next half
    (
        ("there", 1), ("experts", 0),
        "the experts of half {} run before half {} is sent",
        "the numbers may be right, but while these experts compute, nothing travels to them: send "
        "the next half first",
    ),
    (
        ("experts", 0), ("wait there", 1),
        "half {1} is waited for before the experts of half {0} run",
        "the numbers may be right, but the next half has arrived before anybody computes with this "
        "one. Wait for one half, compute with it, and only then wait for the next one",
    ),
    (
        ("back", 0), ("experts", 1),
        "half {} starts back only after the experts of half {}",
        "the numbers may be right, but results lie idle: a half can start back as soon as "
        "its experts are done",
    ),
    (
        ("experts", 1), ("wait back", 0),
        "half {}'s way back is waited for before the experts of half {} run",
        "the numbers may be right, but nothing is computed while this half travels back: "
        "wait for the ways back at the end",
    ),
]  # fmt: skip


def idle(trial):
    """Complain of halves that do not travel while experts compute with their neighbours."""
    for (first, a), (second, b), what, why in ORDERS:
        for place, of in enumerate(trial):
            for k in range(len(trial.case.args) - 1):
                one, other = [first, k + a], [second, k + b]
                if other in of.events and (
                    one not in of.events or of.events.index(one) > of.events.index(other)
                ):
                    yield f"{trial.name_of_rank(place)}: {what.format(k, k + 1)}", why


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
        numbers = [k for name, k in of.events if name == "experts"]
        if len(numbers) > len(halves):
            yield (
                f"{who}: the experts run {len(numbers)} times with {len(halves)} halves",
                "experts take time: call them once for each half",
            )
        if numbers != sorted(numbers):
            yield (
                f"{who}: the experts run with the halves {numbers}",
                "the halves go in order, half 0 first: the others are still on their way then",
            )
        if of.list_changed:
            yield (
                f"{who}: the list `halves` has changed",
                "the list is the caller's: keep transfers and results in lists of your own",
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
