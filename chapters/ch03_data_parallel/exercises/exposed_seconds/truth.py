"""The right results, and the results of known mistakes."""

from itertools import pairwise

import torch


def exposed(communication, computing):
    """Ask of each piece between two neighbouring edges whether it is exposed."""
    edges = sorted({edge for span in [*communication, *computing] for edge in span})
    return sum(
        (end - start for start, end in pairwise(edges)
         if covers(communication, start, end) and not covers(computing, start, end)),
        0.0,
    )  # fmt: skip


def covers(spans, start, end) -> bool:
    return any(a <= start and end <= b for a, b in spans)


def union(spans) -> list:
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def length(spans):
    return sum((end - start for start, end in spans), 0.0)


def shared(one, other):
    """Return the time that each span of one list shares with each span of another, added up."""
    return sum((max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in other), 0.0)


def merges_neighbours(spans) -> list:
    """Merge spans in the order in which they are listed, without sorting them."""
    merged = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def ends_too_early(spans) -> list:
    """Merge sorted spans, with the end of the last one instead of the latest end."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def length_in_order(spans):
    """Return what each span adds after the latest end before it, without sorting them."""
    total, reached = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def cut_at_ends(communication, computing):
    pieces = []
    for start, end in communication:
        for a, b in sorted(computing):
            if a <= start < b:
                start = min(b, end)
            elif a < end <= b:
                end = a
        pieces.append((start, end))
    return length(union(pieces))


def converts(change):
    """Return exposed() of spans whose starts and ends are changed first."""
    return lambda *lists: exposed(*([tuple(map(change, span)) for span in x] for x in lists))


def in_float32(seconds):
    return torch.tensor(seconds).item()


MISTAKES = [
    (
        "float32 has 7 digits: at a trace's 1.8e9 seconds its steps are 128 s",
        converts(in_float32),
    ),
    (
        "a span may last microseconds: take its start and end as they are, without a grid",
        converts(lambda seconds: round(seconds, 3)),
    ),
    (
        "what lies before 0 is lost: the first moment is the first start, which may be negative",
        converts(lambda seconds: max(0.0, seconds)),
    ),
    (
        "communication is taken to last from the first start to the last end: it may pause",
        lambda communication, computing: exposed(
            [(min(communication)[0], max(end for _, end in communication))]
            if communication
            else [],
            computing,
        ),
    ),
    (
        "only the ends of messages are cut off: computing in the middle of one cuts it in two",
        cut_at_ends,
    ),
    (
        "the lists are in no order: sort the spans before they are merged",
        lambda communication, computing: (
            length_in_order([*communication, *computing]) - length_in_order(computing)
        ),
    ),
    (
        "a short span within a longer one ends the longer one too early: merged spans end at the "
        "later of the two ends",
        lambda communication, computing: (
            length(ends_too_early([*communication, *computing])) - length(ends_too_early(computing))
        ),
    ),
    (
        "this is all the communication. What computing covers at the same time is not exposed",
        lambda communication, computing: length(union(communication)),
    ),
    (
        "spans of communication overlap, and their lengths are added up: where two messages are "
        "under way at a time, that time counts once",
        lambda communication, computing: (
            length(communication) - shared(communication, union(computing))
        ),
    ),
    (
        "computing that overlaps other computing is subtracted twice: a moment is covered, or it "
        "is not",
        lambda communication, computing: (
            length(union(communication)) - shared(union(communication), computing)
        ),
    ),
    (
        "both lists have spans that overlap each other, and such time counts once: merge the spans "
        "of each list first, or go from edge to edge",
        lambda communication, computing: length(communication) - shared(communication, computing),
    ),
    (
        "all the computing is subtracted. Only computing that runs at the same time covers "
        "communication",
        lambda communication, computing: length(union(communication)) - length(union(computing)),
    ),
    (
        "all the computing is subtracted, and what is left is cut off at 0. Only computing that "
        "runs at the same time covers communication",
        lambda communication, computing: max(
            0.0, length(union(communication)) - length(union(computing))
        ),
    ),
    (
        "this is what is covered; asked is the rest of the communication",
        lambda communication, computing: shared(union(communication), union(computing)),
    ),
    (
        "this is computing without communication: the two lists have changed places",
        lambda communication, computing: exposed(computing, communication),
    ),
    (
        "this is the share of the communication that is exposed; asked are seconds",
        lambda communication, computing: (
            exposed(communication, computing) / length(union(communication))
        ),
    ),
    (
        "the lists are in no order: sort the spans before they are merged",
        lambda communication, computing: (
            length(merges_neighbours(communication))
            - shared(merges_neighbours(communication), merges_neighbours(computing))
        ),
    ),
    (
        "a short span within a longer one ends the longer one too early: merged spans end at the "
        "later of the two ends",
        lambda communication, computing: (
            length(ends_too_early(communication))
            - shared(ends_too_early(communication), ends_too_early(computing))
        ),
    ),
    (
        "only messages that no computing touches count in full here, and the others not at all: a "
        "message may be covered for a part of its time",
        lambda communication, computing: length(
            [span for span in union(communication) if not shared([span], computing)]
        ),
    ),
]
