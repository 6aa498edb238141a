"""A fused matrix of queries, keys and values that is cut by heads: exercise 7.10. No ranks."""

import itertools
import operator

import torch

from ..kit import Formula

SIZES = {  # (heads, kv_heads, rows of a head, ranks)
    "4 heads, each with its key": (4, 4, 3, 2),
    "6 heads, 2 keys": (6, 2, 2, 2),
    "8 heads, 4 keys": (8, 4, 3, 4),
    "6 heads, 3 keys": (6, 3, 1, 3),
    "4 heads, 1 key, one rank": (4, 1, 2, 1),
}  # the width is heads * rows of a head, as in most models
FLOAT = "/ gives a float, even if nothing is left over: // gives a whole number"


def calls(heads, kv_heads, size, n):
    """For each rank: a matrix whose numbers tell the row."""
    rows = torch.arange(1000.0 * (heads + 2 * kv_heads) * size).view(-1, 1000)
    return [(rows[:, : heads * size].clone(), heads, kv_heads, rank, n) for rank in range(n)]


def labels(heads, kv_heads, size) -> list[tuple[str, int, int]]:
    """Of each row: what it belongs to, the number of its head, and how many heads there are."""
    kinds = {"query": heads, "key": kv_heads, "value": kv_heads}
    return [(kind, k, n) for kind, n in kinds.items() for k in range(n) for _ in range(size)]


def size_of(weight, heads, kv_heads) -> int:
    return len(weight) // (heads + 2 * kv_heads)


def rows_of_rank(weight, heads, kv_heads, rank, n):
    """Row by row: it is the rank's if its head is among the rank's n-th of the heads."""
    of_row = labels(heads, kv_heads, size_of(weight, heads, kv_heads))
    return weight[[row for row, (_, head, of) in enumerate(of_row) if head * n // of == rank]]


def numbers_of_rows(call, value) -> list[int] | None:
    """Which rows of the matrix a value consists of; None if it has something else in it."""
    known = call[0].tolist()
    return [known.index(row) for row in value] if all(row in known for row in value) else None


def in_words(call, value) -> str:
    """`query 0, query 1, key 0, value 0`; of a head that is torn apart, how many rows there are."""
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
    return f"rank {rank} of {n}: it gave {in_words(call, got)}; expected {in_words(call, wanted)}"


def explain(found, case) -> str:
    """What no single function gives, of the first call that is wrong."""
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
    ) * ("rows)" in in_words(call, sorted(got)))


def sections(w, heads, kv_heads):
    size = size_of(w, heads, kv_heads)
    return w.split([heads * size, kv_heads * size, kv_heads * size])


def by_heads(w, heads, kv, rank, n):
    parts = [x.chunk(n)[rank].view(kv // n, -1, w.shape[1]) for x in sections(w, heads, kv)]
    return torch.cat(parts, dim=1).flatten(0, 1)


def every_nth_head(w, heads, kv, rank, n):
    heads_of = [x.view(-1, size_of(w, heads, kv), w.shape[1]) for x in sections(w, heads, kv)]
    return torch.cat([x[rank::n].flatten(0, 1) for x in heads_of])


def of_each(part):
    """A wrong answer, from part(section, rank, n)."""
    return lambda w, heads, kv, rank, n: torch.cat(
        [part(x, rank, n) for x in sections(w, heads, kv)]
    )


OTHER_RANK = "these are another rank's rows: rank 0 has the first ones of each section"

EXERCISE = Formula(
    "7.10", "cut_fused",
    cases={case: calls(*sizes) for case, sizes in SIZES.items()},
    truth=rows_of_rank,
    same=operator.eq,
    asked="a matrix",
    told=lambda of, values: f"of {len(of[0][0])} rows rank 0 of {len(of)} has "
    + in_words(of[0], values[0]),
    differs=differs,
    explain=explain,
    mistakes=[
        ("the matrix is cut as if it were one. But first come all queries, then all keys, then all "
         "values: so one rank has queries without their keys, another keys without queries. Cut "
         "each of the three", lambda w, heads, kv, rank, n: w.tensor_split(n)[rank]),
        ("three equal sections are taken, but there are fewer keys and values than queries: heads, "
         "kv_heads and kv_heads heads", lambda w, heads, kv, rank, n:
             torch.cat([part.tensor_split(n)[rank] for part in w.tensor_split(3)])),
        ("every rank has all keys and values: a rank needs those of its own queries, and n divides "
         "kv_heads", lambda w, heads, kv, rank, n:
             torch.cat([sections(w, heads, kv)[0].chunk(n)[rank], *sections(w, heads, kv)[1:]])),
        ("the keys and values are missing: each rank needs those of its queries, too",
         lambda w, heads, kv, rank, n: sections(w, heads, kv)[0].chunk(n)[rank]),
        ("the right rows, ordered by heads: a query, its key, its value. That is the course's own "
         "order; here, all queries come first, then the keys, then the values", by_heads),
        ("these are every n-th of the heads. A rank has neighbours, the first ranks the first "
         "ones: heads / kv_heads queries in a row share a key, and that one has to be on their "
         "rank", every_nth_head),
        ("every n-th row is taken: this tears the heads apart. The rows of a head stay together, "
         "and neighbouring heads, too", of_each(lambda x, rank, n: x[rank::n])),
        ("the columns are cut, and these are the inputs. What belongs to a head are rows: "
         "nn.Linear has its outputs there",
         lambda w, heads, kv, rank, n: w.chunk(n, 1)[rank]),
        ("one matrix is asked: torch.cat puts the three sections together",
         lambda w, heads, kv, rank, n: [x.chunk(n)[rank].tolist() for x in sections(w, heads, kv)]),
        (OTHER_RANK, of_each(lambda x, rank, n: x.chunk(n)[0])),
        (OTHER_RANK, of_each(lambda x, rank, n: x.chunk(n)[rank - 1])),
        (OTHER_RANK, of_each(lambda x, rank, n: x.chunk(n)[n - 1 - rank])),
    ],
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
