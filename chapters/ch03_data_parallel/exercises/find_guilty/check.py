"""The rank that fell out of step, found in the recorded calls of all ranks."""

from coursekit.kit import Formula, Wrong
from coursekit.kit.results import outcome_of, plain

from .call_records import MISTAKES, record_mistake
from .truth import ALL_MISTAKES, truth


def calls(first, text) -> list[dict]:
    """Return the records of a text such as `sum 68, sum 2, barrier`, numbered from `first` on."""
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


def live(answer):
    """Try the answer on calls that ranks have just recorded, for each mistake."""
    for guilty, mistake in enumerate(MISTAKES):
        records, number = record_mistake(mistake, guilty)
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
    "find_guilty",
    cases={case: [call] for case, call in CASES.items()},
    truth=truth,
    asked="a tuple of a rank, the number of a call, and LEFT, OPERATION or SHAPE",
    shape="asked is a tuple: a rank, the number of a call, and LEFT, OPERATION or SHAPE",
    errors={"StopIteration": NONE_FOUND},
    also=live,
    mistakes=ALL_MISTAKES,
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
