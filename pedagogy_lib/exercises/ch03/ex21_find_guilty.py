"""Which rank fell out of step, told from the recorded calls of all ranks."""

from collections import Counter

from ...course.checking import Wrong
from ..kit import Formula
from ..kit.outcomes import outcome_of
from ..kit.values import plain
from .recorded import LEFT, MISTAKES, OPERATION, SHAPE, recorded_after


def calls(first, text) -> list[dict]:
    """From `sum 68, sum 2, barrier`, numbered from `first` on."""
    names = {"sum": "all_reduce", "give": "broadcast", "all": "all_gather"}
    entries = []
    for number, words in enumerate(text.split(", ") if text else [], first):
        name, *sizes = words.split()
        shape = [int(size) for size in sizes]
        entries.append({"number": number, "name": names.get(name, name), "shape": shape})
    return entries


def dumps(*ranks) -> tuple:
    return ([calls(first, text) for first, text in ranks],)


USUAL = "sum 68, sum 2, sum 68, sum 2"
CASES = {
    "the example": dumps((5, USUAL), (4, "sum 2, sum 68, sum 3"), (5, "sum 68, sum 2, sum 68")),
    "rank 1 left": dumps((1, USUAL), (1, "sum 68, sum 2, sum 68"), (1, USUAL)),
    "rank 0 calls a barrier": dumps(
        (1, "sum 68, sum 2, barrier"), (1, USUAL[:-7]), (1, USUAL[:-7]), (1, USUAL[:-7])),
    "rank 2 sums more": dumps((1, USUAL), (1, USUAL), (1, "sum 68, sum 3")),
    "rank 0 sums more, and gets further than rank 2": dumps(
        (1, "sum 68, sum 3, sum 68"), (1, USUAL), (1, "sum 68, sum 2")),
    "rank 3 left before its first call": dumps(
        (1, "sum 68"), (1, "sum 68"), (1, "sum 68"), (1, "")),
    "all differ from the first call on": dumps((1, "sum 5"), (1, "give 5"), (1, "sum 5")),
    "another operation with the same shape": dumps(
        (11, "sum 68, sum 68"), (11, "sum 68, sum 68"), (11, "sum 68, give 68")),
    "the recorder of rank 0 has lost the older calls": dumps(
        (9, USUAL), (7, "sum 68, sum 2, sum 68, sum 2, sum 68, sum 3"),
        (8, "sum 2, sum 68, sum 2, sum 68, sum 2")),
    "rank 0's record is the shortest, and rank 1's ends first": dumps(
        (10, USUAL), (7, "sum 2, sum 68, sum 2, sum 68, sum 3, sum 68"),
        (8, "sum 68, sum 2, sum 68, sum 2, sum 68, sum 2")),
    "rank 1's record is longer at the beginning": dumps(
        (3, "sum 68, sum 2"), (1, "give 68, sum 7, sum 68, sum 2"), (3, "sum 68")),
    "rank 2 is two calls behind, and left first": dumps(
        (21, USUAL), (21, USUAL), (21, "sum 68, sum 2")),
    "the same numbers in another order of axes": dumps(
        (1, "all 4 8"), (1, "all 4 8"), (1, "all 8 4"), (1, "all 4 8")),
    "both name and shape differ": dumps((4, "sum 68"), (4, "sum 68"), (4, "give 2")),
    "the ranks after the mistake disagree, too": dumps(
        (1, "sum 68, sum 2, sum 68, give 2"), (1, "sum 68, sum 3, sum 2"), (1, "sum 68, sum 2")),
    "five ranks after an hour, the last one left": dumps(
        *[(120_001, USUAL)] * 4, (119_999, "sum 68, sum 2, sum 68")),
}  # fmt: skip


def tables(records):
    return [{c["number"]: (c["name"], tuple(c["shape"])) for c in record} for record in records]


def found_by(records, first=max, guilty=min, last=False):
    """The first number at which the calls differ, and the rarest call there."""
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
    return found_by(records)


# ---- Mistakes: wrong functions ---


def fewest_calls(records):
    rank = min(range(len(records)), key=lambda r: len(records[r]))
    number = max((c["number"] for c in records[rank]), default=0) + 1
    return rank, number, LEFT


def least_far(records):
    ends = [max((c["number"] for c in record), default=0) for record in records]
    rank = min(range(len(ends)), key=ends.__getitem__)
    return rank, ends[rank] + 1, LEFT


def by_place(records):
    """The k-th entries beside each other, whatever their numbers."""
    renumbered = [[c | {"number": k} for k, c in enumerate(r, 1)] for r in records]
    found = found_by(renumbered)
    return found and (found[0], records[0][found[1] - 1]["number"], found[2])


def from_one(records):
    return found_by(records, first=lambda starts: len([*starts][:1]))


def with_rank_0(records):
    """Whoever differs from rank 0."""
    ranks = tables(records)
    start = max(min(table, default=1) for table in ranks)
    for number in range(start, start + 50):
        for rank, table in enumerate(ranks):
            if table.get(number) != ranks[0].get(number):
                return rank, number, kind(table.get(number), ranks[0].get(number))
    return None


def last_calls(records):
    """The last entry of each rank, in place of the first difference."""
    seen = [(r[-1]["name"], tuple(r[-1]["shape"])) if r else None for r in records]
    counts = Counter(seen)
    rank = seen.index(min(counts, key=counts.get))
    usual = max(counts, key=counts.get)
    return rank, records[rank][-1]["number"] if records[rank] else 1, kind(seen[rank], usual)


def after(records):
    found = found_by(records)
    return found[0], found[1] - 1, found[2]


def by_part(records, part, what):
    """Calls told apart by their names alone (part 0), or by their shapes alone (part 1)."""
    ranks = [{n: call[part] for n, call in table.items()} for table in tables(records)]
    start = max(min(table, default=1) for table in ranks)
    for number in range(start, max(max(table, default=0) for table in ranks) + 1):
        seen = [table.get(number) for table in ranks]
        rank = next((k for k, one in enumerate(seen) if seen.count(one) == 1), None)
        if rank is not None:
            return rank, number, LEFT if seen[rank] is None else what
    return None


def in_quotes(records):
    rank, number, what = found_by(records)
    return rank, number, {LEFT: "LEFT", OPERATION: "OPERATION", SHAPE: "SHAPE"}[what]


def swapped(records):
    rank, number, what = found_by(records)
    return rank, number, {OPERATION: SHAPE, SHAPE: OPERATION}.get(what, what)


def live(answer):
    """The same for calls that ranks have really recorded, for each mistake."""
    for guilty, mistake in enumerate(MISTAKES):
        records, number = recorded_after(mistake, guilty)
        case = f"recorded just now, on 3 ranks: rank {guilty}, {mistake}"
        wanted = (guilty, number, mistake)
        outcome = outcome_of(answer, records)
        got = plain(outcome.value) if not outcome.error else str(outcome)
        if got != plain(wanted):
            raise Wrong(case, f"expected {wanted}, got {outcome.error or got}", "")
        yield f"{case}: found at call {number}"


NONE_FOUND = (
    "no difference was found, and there is one in every case: two calls are equal only if both "
    "name and shape are, and a rank without a call differs from those that have it"
)

EXERCISE = Formula(
    "3.21",
    "find_guilty",
    cases={case: [call] for case, call in CASES.items()},
    truth=truth,
    asked="a tuple of a rank, the number of a call, and LEFT, OPERATION or SHAPE",
    shape="asked is a tuple: a rank, the number of a call, and LEFT, OPERATION or SHAPE",
    errors={"StopIteration": NONE_FOUND},
    also=live,
    mistakes=[
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
            by_place,
        ),
        (
            "an old call that a recorder has lost is not one that the rank left out: begin with "
            "the first number that every rank still has",
            from_one,
        ),
        (
            "rank 0 may be the guilty one, too: then all others differ from it. Guilty is the one "
            "that differs from most",
            with_rank_0,
        ),
        (
            "this compares the last calls. Ranks may have gone on after the mistake: look for the "
            "first number at which they differ",
            last_calls,
        ),
        (
            "the last call at which the ranks differ is what followed from the mistake: asked is "
            "the first one",
            lambda records: found_by(records, last=True),
        ),
        ("this is the last call at which all agree; asked is the next one", after),
        (
            "this finds a rank of the majority: the guilty one is the rank that differs from most",
            lambda records: found_by(records, guilty=max),
        ),
        (
            "two calls are equal only if both name and shape are: this compares the names alone",
            lambda records: by_part(records, 0, OPERATION),
        ),
        (
            "two calls are equal only if both name and shape are: this compares the shapes alone",
            lambda records: by_part(records, 1, SHAPE),
        ),
        (
            "OPERATION means another name, SHAPE the same name and another shape",
            swapped,
        ),
        (
            "LEFT, OPERATION and SHAPE are names of the lab: write them without quotes",
            in_quotes,
        ),
        (
            "all three are asked: the rank, the number of its first wrong call, and what is wrong",
            lambda records: found_by(records)[:2],
        ),
    ],
    hints=(
        "Put the calls of each rank into a dict, by their numbers. Which is the smallest number "
        "that all of them have?",
        "Go on from there, number by number, until not all ranks have the same (name, shape). A "
        "rank that has no such number has None.",
        "There one rank has what no other rank has. Which is it? Compare it with any other rank to "
        "tell LEFT, OPERATION and SHAPE apart.",
    ),
    lab="when_it_hangs",
)
