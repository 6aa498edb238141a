"""The right results, and the results of known mistakes."""

from itertools import accumulate, groupby


def most(row) -> int:
    """Return the most forwards, after any action, that are not yet released on their chunk."""
    done = [row[:n] for n in range(len(row) + 1)]
    released = [{action[1:] for action in before if action.kind in "BW"} for before in done]
    return max(
        len([a for a in before if a.kind == "F" and a[1:] not in gone])
        for before, gone in zip(done, released)
    )


def highest_at_end(row) -> int:
    return sum((a.kind == "F") - (a.kind in "BW") for a in row)


def highest(frees):
    """Return a count of the most kept at a time, if actions of these kinds free one each."""
    return lambda row: max(
        accumulate(((a.kind == "F") - (a.kind in frees) for a in row), initial=0)
    )


def count_at_releases(row) -> int:
    """Return the most micro-batches kept at a moment when one is released."""
    kept = list(accumulate((a.kind == "F") - (a.kind in "BW") for a in row))
    return max((n + 1 for n, a in zip(kept, row) if a.kind in "BW"), default=0)


def numbers_kept(row) -> int:
    """Return the most different micro-batches, if one's first backward frees it in all chunks."""
    kept, most = set(), 0
    for kind, i, _ in row:
        kept = kept | {i} if kind == "F" else kept - {i} if kind in "BW" else kept
        most = max(most, len(kept))
    return most


def chunks_alone(row) -> list[int]:
    """Return the most micro-batches kept on each chunk by itself."""
    chunks = {action.chunk for action in row}
    return [most([action for action in row if action.chunk == chunk]) for chunk in chunks] or [0]


def count_by_removal(row) -> int:
    """Count as `numbers_kept` does, but raise KeyError for a release of a missing micro-batch."""
    kept, most = set(), 0
    for kind, i, _ in row:
        kept.add(i) if kind == "F" else kept.remove(i) if kind in "BW" else None
        most = max(most, len(kept))
    return most


def count_at_starts(row) -> int:
    """Return the most micro-batches kept when an action begins."""
    return most(row[:-1])


def first_kept(row) -> int:
    return int(row[0].kind == "F") if row else 0


ONE_CHUNK = (
    "one chunk alone is counted. A rank keeps what has gone through any of its chunks, all of them "
    "at the same time"
)

BY_NUMBER = (
    "different micro-batches are counted. With several chunks a rank keeps one on each chunk that "
    "it has gone through"
)


def runs(row) -> list[int]:
    """Return the length of each run of consecutive forwards."""
    kinds = [list(run) for _, run in groupby(action.kind for action in row)]
    return [len(run) for run in kinds if run[0] == "F"] or [0]


MISTAKES = [
    ("W frees what is kept, just as B does", highest("B")),
    ("with the first half of the backward, I, nothing is free yet: the second one, W, still "
     "needs what was kept", highest("BI")),
    ("a micro-batch is freed twice, by both halves of its backward: only W frees it",
     highest("BIW")),
    ("these are the forwards in all. Each backward frees what its forward has kept: count up "
     "and down", highest("")),
    *(("this is what is kept at the end. Asked is the most at a time: note the highest", at_end)
      for at_end in (lambda row: 0, lambda row: highest_at_end(row))),
    ("these are the forwards before the first backward. It goes on up and down after that: "
     "there may be more later", lambda row: runs(row)[0]),
    ("this is the longest run of forwards. What was kept before it counts, too",
     lambda row: max(runs(row))),
    (BY_NUMBER, numbers_kept),
    (BY_NUMBER, count_by_removal),
    ("I keeps nothing more: the micro-batch is kept since its forward. I counts neither up nor "
     "down", lambda row: max(accumulate(
         ((a.kind in "FI") - (a.kind in "BW") for a in row), initial=0))),
    ("half a micro-batch is released by each half of the backward. I releases nothing, and W "
     "all of it", lambda row: max(accumulate(
         ({"F": 1, "B": -1}.get(a.kind, -0.5) for a in row), initial=0))),
    (ONE_CHUNK, lambda row: most([a for a in row if not a.chunk])),
    (ONE_CHUNK, lambda row: max(chunks_alone(row))),
    ("the most of each chunk are added up, but they are not all kept at the same moment: one "
     "counter for all chunks", lambda row: sum(chunks_alone(row))),
    ("the highest is noted before each action, and not after the last one: count first, then "
     "note", count_at_starts),
    ("this is what is kept after the first action: does the loop end there, with a `return` "
     "inside of it?", first_kept),
    ("it looks only where something is released; what nobody has released yet is kept, too",
     count_at_releases),
    ("one too few: a rank keeps most right after a forward, before the next backward",
     lambda row: max(most(row) - 1, 0)),
    ("this is the highest number of a micro-batch",
     lambda row: max((action.microbatch for action in row), default=0)),
    ("this is how many actions there are", len),
]  # fmt: skip
