"""Which micro-batches each rank computes: all of them, each once, as evenly as can be."""

from collections import Counter

from ..kit import At, World, complains
from ..kit.in_this_process import InThisProcess

LIST = "asked are the numbers of this rank's micro-batches: a list of whole numbers, such as [0, 3]"
FROM_1 = "micro-batches have the numbers 0 to m - 1, as ranks have 0 to n - 1"
EVERYBODY = "every rank has all micro-batches: each is to be computed by one rank alone"
ONE_EACH = (
    "each rank has the one with its own number. What if there are more micro-batches than ranks? "
    "(`n` is the number of ranks, `m` that of micro-batches.)"
)
FLOOR = (
    "each rank has m // n micro-batches, and what is left over has nobody. Some ranks have to take "
    "one more"
)
CEIL = (
    "the first ranks take the number rounded up, until nothing is left: the last ones have too "
    "few. No rank has two more than another"
)
REST = (
    "one rank takes all that is left over when the others have m // n: all others wait for it in "
    "every step. No rank has two more than another"
)
UNEVEN = "no rank has two more than another: the step takes as long as the rank with most"


def deal(answer, place, case):
    return {"mine": answer(place, len(case.ranks), *case.args)}


def is_list(value) -> bool:
    return isinstance(value, list | tuple | range) and all(isinstance(k, int) for k in value)


def faults(trial):
    """What is wrong, and why: the first counts."""
    n, (m,) = trial.n, trial.case.args
    strange = [value for value in trial.of("mine") if not is_list(value)]
    if strange:
        yield f"it returned {strange[0]!r:.40}", LIST
    shares = list(map(list, trial.of("mine")))
    everything = Counter(k for mine in shares for k in mine)
    sizes = list(map(len, shares))
    strange = next((k for k in everything if not 0 <= k < m), None)
    if strange is not None:
        yield f"{in_words(shares)}: there is no micro-batch {strange}", why_strange(shares, m)
    twice = next((k for k, times in everything.items() if times > 1), None)
    if twice is not None:
        is_all = n > 1 and all(sorted(mine) == list(range(m)) for mine in shares)
        yield f"{in_words(shares)}: micro-batch {twice} is there twice", EVERYBODY if is_all else ""
    missing = next((k for k in range(m) if k not in everything), None)
    if missing is not None:
        yield f"{in_words(shares)}: nobody has micro-batch {missing}", why_missing(shares, m)
    if max(sizes) - min(sizes) > 1:
        yield in_words(shares), why_uneven(sizes, m)


def in_words(shares) -> str:
    return "the ranks have " + ", ".join(map(str, shares))


def why_strange(shares, m) -> str:
    return FROM_1 if {k for mine in shares for k in mine} == set(range(1, m + 1)) else ""


def why_missing(shares, m) -> str:
    n = len(shares)
    if shares == [[rank] for rank in range(n)]:
        return ONE_EACH
    return FLOOR if all(len(mine) == m // n for mine in shares) else ""


def why_uneven(sizes, m) -> str:
    n = len(sizes)
    each = -(-m // n)
    if sizes == [max(0, min(each, m - rank * each)) for rank in range(n)]:
        return CEIL
    return REST if sorted(sizes)[:-1] == [m // n] * (n - 1) else UNEVEN


EXERCISE = InThisProcess(
    "4.11",
    "microbatches_of",
    lab="restart",
    cases=[
        At(World(n), (m,), f", {m} micro-batches")
        for n, m in ((1, 4), (2, 4), (3, 12), (4, 12), (3, 7), (4, 10), (5, 12), (8, 12), (5, 3),
                     (4, 1))
    ],
    work=deal,
    facts=[complains(faults)],
    told=lambda trial: " and ".join(
        f"{ranks} × {size}" for size, ranks in sorted(Counter(map(len, trial.of("mine"))).items())
    ),
    errors={
        "zero": "if there are more ranks than micro-batches, m // n is 0",
        "positional argument": "it is called with three numbers: rank, n, m",
    },
    hints=(
        "Deal them as you deal cards: the first to rank 0, the second to rank 1, …",
        "Rank 0 of 3 gets 0, 3, 6, …; rank 1 gets 1, 4, 7, …",
        "range has a third argument: the stride.",
    ),
)  # fmt: skip
