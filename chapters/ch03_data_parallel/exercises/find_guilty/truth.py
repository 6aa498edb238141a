"""The right results, and the results of known mistakes."""

from collections import Counter

from .call_records import LEFT, OPERATION, SHAPE


def tables(records):
    return [{c["number"]: (c["name"], tuple(c["shape"])) for c in record} for record in records]


def find_difference(records, first=max, guilty=min, last=False):
    """Return (rank, number, kind) of the rarest call at the first number where calls differ."""
    ranks = tables(records)
    start = first(min(table, default=1) for table in ranks)
    end = max(max(table, default=0) for table in ranks)
    numbers = range(start, end + 1)
    for number in reversed(numbers) if last else numbers:
        seen = [table.get(number) for table in ranks]
        counts = Counter(seen)
        if len(counts) > 1:
            rank = seen.index(guilty(counts, key=counts.get))
            usual = seen[seen.index(max(counts, key=counts.get))]
            return rank, number, kind(seen[rank], usual)
    return None


def kind(mine, usual):
    if mine is None:
        return LEFT
    return SHAPE if usual is None or mine[0] == usual[0] else OPERATION


def truth(records):
    return find_difference(records)


def fewest_calls(records):
    rank = min(range(len(records)), key=lambda r: len(records[r]))
    number = max((c["number"] for c in records[rank]), default=0) + 1
    return rank, number, LEFT


def least_far(records):
    ends = [max((c["number"] for c in record), default=0) for record in records]
    rank = min(range(len(ends)), key=ends.__getitem__)
    return rank, ends[rank] + 1, LEFT


def compare_by_place(records):
    """Compare the k-th entries of the ranks, whatever their numbers."""
    renumbered = [[c | {"number": k} for k, c in enumerate(r, 1)] for r in records]
    found = find_difference(renumbered)
    return found and (found[0], records[0][found[1] - 1]["number"], found[2])


def start_at_first_rank(records):
    return find_difference(records, first=lambda starts: len([*starts][:1]))


def compare_with_rank_0(records):
    """Return the first rank that differs from rank 0."""
    ranks = tables(records)
    start = max(min(table, default=1) for table in ranks)
    for number in range(start, start + 50):
        for rank, table in enumerate(ranks):
            if table.get(number) != ranks[0].get(number):
                return rank, number, kind(table.get(number), ranks[0].get(number))
    return None


def last_calls(records):
    """Compare the last entry of each rank, instead of the first difference."""
    seen = [(r[-1]["name"], tuple(r[-1]["shape"])) if r else None for r in records]
    counts = Counter(seen)
    rank = seen.index(min(counts, key=counts.get))
    usual = max(counts, key=counts.get)
    return rank, records[rank][-1]["number"] if records[rank] else 1, kind(seen[rank], usual)


def find_last_agreed(records):
    found = find_difference(records)
    return found[0], found[1] - 1, found[2]


def compare_part(records, part, what):
    """Compare calls only by their names (part 0) or only by their shapes (part 1)."""
    ranks = [{n: call[part] for n, call in table.items()} for table in tables(records)]
    start = max(min(table, default=1) for table in ranks)
    for number in range(start, max(max(table, default=0) for table in ranks) + 1):
        seen = [table.get(number) for table in ranks]
        rank = next((k for k, one in enumerate(seen) if seen.count(one) == 1), None)
        if rank is not None:
            return rank, number, LEFT if seen[rank] is None else what
    return None


def quote_kind(records):
    rank, number, what = find_difference(records)
    return rank, number, {LEFT: "LEFT", OPERATION: "OPERATION", SHAPE: "SHAPE"}[what]


def swap_kinds(records):
    rank, number, what = find_difference(records)
    return rank, number, {OPERATION: SHAPE, SHAPE: OPERATION}.get(what, what)


ALL_MISTAKES = [
    (
        "the rank with the fewest calls need not be the guilty one: compare the calls with the "
        "same number, from the first on that all have",
        fewest_calls,
    ),
    (
        "the rank that stopped first need not be the guilty one: others may have stopped "
        "because of it. Look for the first call at which they differ",
        least_far,
    ),
    (
        "these are the entries at the same place in the lists. A recorder that has lost more "
        "old calls begins with a later number: compare calls with the same `number`",
        compare_by_place,
    ),
    (
        "an old call that a recorder has lost is not one that the rank left out: begin with "
        "the first number that every rank still has",
        start_at_first_rank,
    ),
    (
        "rank 0 may be the guilty one, too: then all others differ from it. Guilty is the one "
        "that differs from most",
        compare_with_rank_0,
    ),
    (
        "this compares the last calls. Ranks may have gone on after the mistake: look for the "
        "first number at which they differ",
        last_calls,
    ),
    (
        "the last call at which the ranks differ is what followed from the mistake: asked is "
        "the first one",
        lambda records: find_difference(records, last=True),
    ),
    ("this is the last call at which all agree; asked is the next one", find_last_agreed),
    (
        "this finds a rank of the majority: the guilty one is the rank that differs from most",
        lambda records: find_difference(records, guilty=max),
    ),
    (
        "two calls are equal only if both name and shape are: this compares the names alone",
        lambda records: compare_part(records, 0, OPERATION),
    ),
    (
        "two calls are equal only if both name and shape are: this compares the shapes alone",
        lambda records: compare_part(records, 1, SHAPE),
    ),
    (
        "OPERATION means another name, SHAPE the same name and another shape",
        swap_kinds,
    ),
    (
        "LEFT, OPERATION and SHAPE are names of the lab: write them without quotes",
        quote_kind,
    ),
    (
        "all three are asked: the rank, the number of its first wrong call, and what is wrong",
        lambda records: find_difference(records)[:2],
    ),
]
