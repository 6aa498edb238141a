"""The right results, and the results of known mistakes."""

from itertools import pairwise

from ..shared.meshes import all_places, lists_along, world_of
from ..shared.meshes_truth import first_axis_fastest


def links(axis, sizes, places=all_places):
    """Yield (sender, receiver) for each link along an axis."""
    for ranks in lists_along(axis, sizes, places):
        yield from zip(ranks, [*ranks[1:], ranks[0]])


def sum_machine_bytes(sizes, per_machine, sent, counts, pairs) -> list[float]:
    """Return the bytes per machine, over its links with counts(sender's machine, receiver's)."""
    totals = [0.0] * (world_of(sizes) // per_machine)
    for axis in sizes:
        for a, b in pairs(axis, sizes):
            sender, receiver = a // per_machine, b // per_machine
            totals[sender] += sent[axis] * counts(sender, receiver)
    return totals


def differ(a, b):
    return a != b


def truth(sizes, per_machine, sent):
    return sum_machine_bytes(sizes, per_machine, sent, differ, links)


def but(counts=differ, pairs=links):
    return lambda sizes, per_machine, sent: sum_machine_bytes(
        sizes, per_machine, sent, counts, pairs
    )


def first_axis_alone(sizes, per_machine, sent):
    machines = world_of(sizes) // per_machine
    return [float(sent[next(iter(sizes))] * per_machine * (machines > 1))] * machines


def open_rings(axis, sizes):
    for ranks in lists_along(axis, sizes):
        yield from pairwise(ranks)


def each_to_all(axis, sizes):
    for ranks in lists_along(axis, sizes):
        yield from ((a, b) for a in ranks for b in ranks if a != b)


def reverse_axis_order(axis, sizes):
    return links(axis, sizes, first_axis_fastest)


def equally(totals):
    return [sum(totals) / len(totals)] * len(totals)


MISTAKES = [
    (
        "the first axis crosses, and here another one does as well: a machine has fewer ranks "
        "than all other axes together. Or it does not cross at all. Look at each group.",
        first_axis_alone,
    ),
    (
        "a ring closes: the last member of a group sends to the first one.",
        but(pairs=open_rings),
    ),
    (
        "a rank sends to the next one of its group alone, not to each member.",
        but(pairs=each_to_all),
    ),
    (
        "what stays inside of a machine does not pass its card.",
        but(counts=lambda a, b: True),
    ),
    (
        "these are the bytes that stay inside; asked are those that leave.",
        but(counts=lambda a, b: a == b),
    ),
    (
        "the last axis of sizes changes fastest: here the first one does.",
        but(pairs=reverse_axis_order),
    ),
    (
        "machines need not send as much as each other: count for each of them.",
        lambda sizes, per_machine, sent: equally(truth(sizes, per_machine, sent)),
    ),
    (
        "machines need not send as much as each other: count for each of them.",
        lambda sizes, per_machine, sent: (
            [each := truth(sizes, per_machine, sent)] and each[:1] * len(each)
        ),
    ),
    (
        "this counts links, not bytes: along each axis a link has so many as `sent` says.",
        lambda sizes, per_machine, sent: truth(sizes, per_machine, dict.fromkeys(sent, 1)),
    ),
    (
        "this is divided by the ranks of the machine; asked are the bytes of all of them.",
        lambda sizes, per_machine, sent: [
            total / per_machine for total in truth(sizes, per_machine, sent)
        ],
    ),
]
