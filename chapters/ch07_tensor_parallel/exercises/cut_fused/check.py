"""A fused matrix of queries, keys and values, cut by heads: exercise cut_fused, without ranks."""

import itertools
import operator

import torch

from coursekit.kit import Formula

from .cases import labels, size_of
from .truth import MISTAKES, rows_of_rank

SIZES = {  # (heads, kv_heads, rows of a head, ranks)
    "4 heads, each with its key": (4, 4, 3, 2),
    "6 heads, 2 keys": (6, 2, 2, 2),
    "8 heads, 4 keys": (8, 4, 3, 4),
    "6 heads, 3 keys": (6, 3, 1, 3),
    "4 heads, 1 key, one rank": (4, 1, 2, 1),
}  # the width is heads * rows of a head, as in most models

FLOAT = "/ gives a float, even if nothing is left over: // gives a whole number"


def calls(heads, kv_heads, size, n):
    """Return a call for each rank, with a matrix whose numbers identify its rows."""
    rows = torch.arange(1000.0 * (heads + 2 * kv_heads) * size).view(-1, 1000)
    return [(rows[:, : heads * size].clone(), heads, kv_heads, rank, n) for rank in range(n)]


def numbers_of_rows(call, value) -> list[int] | None:
    """Return the indices of the matrix's rows in a value; None if it has other contents."""
    known = call[0].tolist()
    return [known.index(row) for row in value] if all(row in known for row in value) else None


def describe_rows(call, value) -> str:
    """Return `query 0, query 1, key 0, value 0`, with row counts for incomplete heads."""
    size, rows, found = size_of(*call[:3]), numbers_of_rows(call, value), []
    if rows is None:
        return "what is not rows of it"
    of_row = labels(*call[1:3], size)
    for (kind, head, _), same in itertools.groupby(of_row[row] for row in rows):
        count = len(list(same))
        found.append(f"{kind} {head}" + f" ({count} of {size} rows)" * (count < size))
    return ", ".join(found) or "nothing"


def differs(call, wanted, got) -> str:
    *_, rank, n = call
    return (
        f"rank {rank} of {n}: it gave {describe_rows(call, got)}; expected "
        f"{describe_rows(call, wanted)}"
    )


def explain(found, case) -> str:
    """Return the diagnosis of the first wrong call if no mistake of the list explains it."""
    pairs = zip(EXERCISE.cases[case], found[case])
    call, got = next(pair for pair in pairs if pair[1] != EXERCISE.truth(*pair[0]).tolist())
    rows = numbers_of_rows(call, got)
    if rows is None:
        return "a rank has some rows of the matrix, each as wide as before, and as it was"
    if len({*rows}) < len(rows):
        return (
            "some rows are there twice, as two sections begin at the same row: first come all "
            "queries, the keys begin behind them, and the values behind the keys"
        )
    if sorted(rows) == numbers_of_rows(call, EXERCISE.truth(*call).tolist()):
        return "the right rows in another order: queries, keys, values follow each other as before"
    return (
        "a head is torn apart: all its rows have to be on one rank. How many rows has one head? "
        "len(weight) counts heads queries, kv_heads keys and as many values"
    ) * ("rows)" in describe_rows(call, sorted(got)))


EXERCISE = Formula(
    "cut_fused",
    cases={case: calls(*sizes) for case, sizes in SIZES.items()},
    truth=rows_of_rank,
    same=operator.eq,
    asked="a matrix",
    right=lambda of, values: f"of {len(of[0][0])} rows rank 0 of {len(of)} has "
    + describe_rows(of[0], values[0]),
    differs=differs,
    explain=explain,
    mistakes=MISTAKES,
    errors={
        "split_sizes to sum": "the sizes of the three sections do not add up to the rows that "
        "there are: keys and values have kv_heads heads each, queries have heads",
        "of type float": FLOAT,
        "'float' object cannot be": FLOAT,
        "slice indices": FLOAT,
        "out of range": "there is no part of this number: split(size) takes the length of a part, "
        "chunk(count) how many there are to be",
        "(got list)": "torch.cat makes one tensor of a list of them",
        "process group": "this cell needs no ranks: `rank` and `n` are arguments",
    },
    hints=(
        "Draw the matrix for 6 heads and 2 keys: which rows belong to the queries, which to "
        "the keys, which to the values? And which of these does rank 0 of 2 need?",
        "All heads are equally long, so len(weight) // (heads + 2 * kv_heads) is the number of "
        "rows of one.",
        "weight.split([…, …, …]) gives the three sections. Of each, chunk(n)[rank] is this "
        "rank's part; torch.cat puts them together.",
    ),
)  # fmt: skip
