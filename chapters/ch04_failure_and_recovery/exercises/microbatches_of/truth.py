"""The right results, and the results of known mistakes."""

from collections import Counter

from coursekit.kit import first_true

from .cases import make_case

LIST = "asked are the numbers of this rank's micro-batches: a list of whole numbers, such as [0, 3]"

FROM_0 = "micro-batches have the numbers 0 to m - 1, as ranks have 0 to n - 1"

LAST = "the last micro-batch has the number m - 1, and a range ends before the end that it is given"

EVERYBODY = "every rank has all micro-batches: each is to be computed by one rank alone"

ONE_EACH = (
    "each rank has the one with its own number. What if there are more micro-batches than ranks? "
    "(`n` is the number of ranks, `m` that of micro-batches.)"
)

STRIDE = (
    "each rank begins with its own number. From one of its micro-batches to its next one, it has "
    "to step over one of each other rank: how far is that?"
)

SAME = "all ranks have the same ones: which ones depends on `rank`"

BLOCKS = (
    "each rank has a block of numbers in a row. A block begins where the block of the rank before "
    "has ended; ranks before may have one more. And a range ends before the end that it is given"
)

FLOOR = (
    "each rank has m // n micro-batches, and what is left over has nobody. Some ranks have to take "
    "one more"
)

TOO_MANY = (
    "all ranks have equally many, and together more than m. Some ranks take one more than m // n; "
    "not all of them do"
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

REMEMBERS = (
    "each rank is a process of its own, and asks for itself alone, in every step anew. So `rank`, "
    "`n` and `m` alone may decide: neither chance, nor what other calls have left behind"
)

MORE_RANKS = "there are more ranks than micro-batches here: m // n is 0, and some ranks have none"

ONE_RANK = "one rank alone has all micro-batches; n - 1 is 0 here"

NOTHING_LEFT = "m % n is 0 where nothing is left over, and the number of rank 0 is 0, too"

NO_GROUP = "which rank asks, and how many there are, is given: `rank` and `n`"


def is_list(value) -> bool:
    return isinstance(value, list | tuple | range) and all(isinstance(k, int) for k in value)


def faults(trial):
    """Yield (error, diagnosis) for all that is wrong; the first one counts."""
    of_all, again = trial.collect_values("mine"), trial.collect_values("again")
    strange = [value for value in [*of_all, *(again or ())] if not is_list(value)]
    if strange:
        yield f"it returned {strange[0]!r:.40}", LIST
    shares = list(map(list, of_all))
    for place, other in enumerate(again or ()):
        if sorted(other) != sorted(shares[place]):
            told = f"{list(other)} when it asks again, and had {shares[place]} before"
            yield f"rank {place} has {told}", REMEMBERS
    for fault, why in faults_of_deal(shares, *trial.case.args):
        yield f"{describe_shares(shares)}{fault}", why if again else REMEMBERS


def faults_of_deal(shares, m):
    """Yield (error, diagnosis) for `shares`, the numbers of each rank's micro-batches."""
    times, sizes = Counter(k for mine in shares for k in mine), list(map(len, shares))
    strange = next((k for k in times if not 0 <= k < m), None)
    if strange is not None:
        yield f": there is no micro-batch {strange}", why_strange(shares, m)
    twice = next((k for k in times if times[k] > 1), None)
    if twice is not None:
        yield f": micro-batch {twice} is there twice", why_twice(shares, m)
    missing = next((k for k in range(m) if k not in times), None)
    if missing is not None:
        yield f": nobody has micro-batch {missing}", why_missing(shares, m)
    if max(sizes) - min(sizes) > 1:
        yield "", why_uneven(sizes, m)


def describe_shares(shares) -> str:
    return "the ranks have " + ", ".join(map(str, shares))


def why_strange(shares, m) -> str:
    n, numbers = len(shares), sorted(k for mine in shares for k in mine)
    each_once = len({*numbers}) == len(numbers)
    return first_true({
        FROM_0: numbers[0] < 0 or numbers == [*range(numbers[0], numbers[0] + m)],
        TOO_MANY: n > 1 and each_once and len({*map(len, shares)}) == 1 and len(numbers) > m,
        BLOCKS: n > 1 and are_blocks(shares) and not each_once,
        LAST: numbers[-1] == m,
    })  # fmt: skip


def why_twice(shares, m) -> str:
    n = len(shares)
    return first_true({
        EVERYBODY: n > 1 and all(sorted(mine) == [*range(m)] for mine in shares),
        SAME: n > 1 and all(sorted(mine) == sorted(shares[0]) for mine in shares),
        STRIDE: n > 1 and has_other_stride(shares, m),
        BLOCKS: n > 1 and are_blocks(shares),
    })  # fmt: skip


def why_missing(shares, m) -> str:
    n, numbers = len(shares), sorted(k for mine in shares for k in mine)
    ends = [mine[-1] + 1 for mine in shares if mine]
    return first_true({
        ONE_EACH: n > 1 and shares == [[rank] for rank in range(n)],
        FLOOR: m % n > 0 and all(len(mine) == m // n for mine in shares),
        FROM_0: numbers == [*range(1, m)] or (n > 1 and are_remainders_from_1(shares)),
        STRIDE: n > 1 and has_other_stride(shares, m),
        LAST: numbers == [*range(m - 1)],
        BLOCKS: n > 1 and are_blocks(shares) and sorted(numbers + ends) == [*range(m)],
    })  # fmt: skip


def are_blocks(shares) -> bool:
    return all(mine == [*range(mine[0], mine[0] + len(mine))] for mine in shares if mine)


def are_remainders_from_1(shares) -> bool:
    n = len(shares)
    return any(shares) and all(k % n == rank + 1 for rank in range(n) for k in shares[rank])


def has_other_stride(shares, m) -> bool:
    """Return whether each rank begins with its own number and goes on in steps other than n."""
    n = len(shares)
    strides = (k for k in range(1, m + 1) if k != n)
    return any(shares == [[*range(rank, m, k)] for rank in range(n)] for k in strides)


def why_uneven(sizes, m) -> str:
    n = len(sizes)
    each = -(-m // n)
    if sizes == [max(0, min(each, m - rank * each)) for rank in range(n)]:
        return CEIL
    return REST if sorted(sizes)[:-1] == [m // n] * (n - 1) else UNEVEN


def explain(case, error) -> str:
    n, (m,), text = len(case.ranks), case.args, str(error)
    return first_true({
        MORE_RANKS: n > m and ("zero" in text or "out of range" in text),
        ONE_RANK: n == 1 and "zero" in text,
        NOTHING_LEFT: m % n == 0 and "zero" in text,
    })  # fmt: skip


ON_RANKS = [make_case(3, 7, ", asked on ranks")]
