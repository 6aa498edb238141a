"""A fused matrix of queries, keys and values that is cut by heads: exercise 7.10. No ranks."""

import itertools

import torch

from ...course.checking import Exercise, Wrong
from ..kit.outcomes import NO_RETURN, outcome_of

WIDTH = 2
# {case: (heads, kv_heads, rows of a head, ranks)}
MATRICES = {
    "4 heads, each with its key": (4, 4, 3, 2),
    "6 heads, 2 keys": (6, 2, 2, 2),
    "8 heads, 4 keys": (8, 4, 3, 4),
    "6 heads, 3 keys": (6, 3, 1, 3),
    "4 heads, 1 key, one rank": (4, 1, 2, 1),
}
KINDS = (("query", "queries"), ("key", "keys"), ("value", "values"))  # of one head, of several
CUT_ERRORS = {
    "split_sizes to sum": "the sizes of the three sections do not add up to the rows that there "
    "are: keys and values have kv_heads heads each, queries have heads",
    "of type float": "/ gives a float, even if nothing is left over: // gives a whole number",
    "'float' object cannot be": "/ gives a float, even if nothing is left over: // gives a whole "
    "number",
    "slice indices": "/ gives a float, even if nothing is left over: // gives a whole number",
    "out of range": "there is no part of this number: split(size) takes the length of a part, "
    "chunk(count) how many there are to be",
    "(got list)": "torch.cat makes one tensor of a list of them",
    "process group": "this cell needs no ranks: `rank` and `n` are arguments",
}


def examine_cut_fused(answer):
    for case, (heads, kv_heads, size, n) in MATRICES.items():
        for rank in range(n):
            judge_rank(f"{case}, rank {rank} of {n}", answer, heads, kv_heads, size, rank, n)
        own = rows_of_rank(heads, kv_heads, size, 0, n)
        whole = (heads + 2 * kv_heads) * size
        yield f"{case}: of {whole} rows rank 0 of {n} has {told(own, heads, kv_heads, size)}"


def judge_rank(case, answer, heads, kv_heads, size, rank, n):
    length = (heads + 2 * kv_heads) * size
    whole = torch.arange(float(length * WIDTH), dtype=torch.float64).view(length, WIDTH)
    weight = whole.clone()
    outcome = outcome_of(answer, weight, heads, kv_heads, rank, n)
    if outcome.error:
        why = next((why for words, why in CUT_ERRORS.items() if words in outcome.message), "")
        raise Wrong(case, str(outcome), why)
    need_matrix(case, outcome.value)
    if not torch.equal(weight, whole):
        raise Wrong(case, "the matrix that it was given has changed", "only copy from it")
    got = rows_in(case, outcome.value, whole)
    wanted = rows_of_rank(heads, kv_heads, size, rank, n)
    if got != wanted:
        what = (
            f"it gave {told(got, heads, kv_heads, size)}; "
            f"expected {told(wanted, heads, kv_heads, size)}"
        )
        raise Wrong(case, what, why_rows(got, heads, kv_heads, size, rank, n))


def need_matrix(case, value):
    if value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(value, torch.Tensor):
        is_list = isinstance(value, (list, tuple))
        why = "one matrix is asked: torch.cat puts the three sections together" if is_list else ""
        raise Wrong(case, f"it returned a {type(value).__name__}", why)


def rows_in(case, value, whole) -> list[int]:
    """Which rows of the whole these are."""
    if value.dim() == 2 and value.shape == (len(whole), WIDTH // 2):
        raise Wrong(case, f"it gave shape {list(value.shape)}", COLUMNS)
    if value.dim() != 2 or value.shape[1] != WIDTH:
        what = f"it gave shape {list(value.shape)}, expected (rows, {WIDTH})"
        raise Wrong(case, what, "a rank has some rows, each as wide as before")
    rows = (value[:, 0] / WIDTH).tolist()
    if any(row not in range(len(whole)) for row in rows) or not torch.equal(
        value, whole[list(map(int, rows))]
    ):
        raise Wrong(case, "these are not rows of the matrix", "rows are chosen, not computed")
    return list(map(int, rows))


COLUMNS = (
    "the columns are cut, and these are the inputs. What belongs to a head are rows: nn.Linear has "
    "its outputs there"
)


# ---- Rows and heads --------------------------------------------------------------------------


def head_of(row, heads, kv_heads, size) -> tuple[int, int]:
    """0 for queries, 1 for keys, 2 for values; and the number of the head."""
    head = row // size
    if head < heads:
        return 0, head
    return 1 + (head - heads) // kv_heads, (head - heads) % kv_heads


def rows_of_rank(heads, kv_heads, size, rank, n) -> list[int]:
    """Of each kind this rank's n-th of the heads, in the matrix's order."""

    def is_own(row):
        kind, head = head_of(row, heads, kv_heads, size)
        return head * n // (kv_heads if kind else heads) == rank

    return [row for row in range((heads + 2 * kv_heads) * size) if is_own(row)]


def told(rows, heads, kv_heads, size) -> str:
    """`queries 0, 1, key 0, value 0`; of a head that is torn apart, how many rows there are."""
    runs = []
    for row in rows:
        place = head_of(row, heads, kv_heads, size)
        if not runs or runs[-1][0] != place or runs[-1][1] == size:
            runs.append([place, 0])
        runs[-1][1] += 1
    parts = []
    for kind, of_kind in itertools.groupby(runs, key=lambda run: run[0][0]):
        names = [str(head) + f" ({count} of {size} rows)" * (count < size)
                 for (_, head), count in of_kind]  # fmt: skip
        parts.append(f"{KINDS[kind][len(names) > 1]} {', '.join(names)}")
    return ", ".join(parts) or "nothing"


# ---- Misconceptions --------------------------------------------------------------------------


def why_rows(got, heads, kv_heads, size, rank, n) -> str:
    wanted = rows_of_rank(heads, kv_heads, size, rank, n)
    guesses = guesses_at_rows(heads, kv_heads, size, rank, n)
    why = next((why for why, guess in guesses if guess == got), "")
    if why or sorted(got) != sorted(wanted):
        return why or (TORN if is_torn(got, heads, kv_heads, size) else "")
    return ORDER


def guesses_at_rows(heads, kv_heads, size, rank, n) -> list[tuple[str, list[int]]]:
    """[(sentence, the rows that this misconception gives), …]."""
    rows = torch.arange((heads + 2 * kv_heads) * size)
    kind_of = torch.tensor([head_of(row, heads, kv_heads, size)[0] for row in rows.tolist()])
    sections = [rows[kind_of == kind] for kind in range(3)]
    mine = torch.tensor(rows_of_rank(heads, kv_heads, size, rank, n))
    own = [mine[kind_of[mine] == kind] for kind in range(3)]
    by_keys = [part.view(kv_heads // n, -1) for part in own]
    thirds = [part.tensor_split(n)[rank] for part in rows.tensor_split(3)]
    strided = [part.view(-1, size)[rank::n].flatten() for part in sections]
    found = [
        (CONTIGUOUS, rows.tensor_split(n)[rank]),
        (THIRDS, torch.cat(thirds)),
        (KEYS_WHOLE, torch.cat([own[0], *sections[1:]])),
        (QUERIES_ALONE, own[0]),
        (INTERLEAVED, torch.cat(by_keys, dim=1).flatten()),
        (STRIDED_HEADS, torch.cat(strided)),
        (STRIDED_ROWS, torch.cat([part[rank::n] for part in sections])),
    ]
    others = [(OTHER_RANK, rows_of_rank(heads, kv_heads, size, k, n)) for k in range(n)]
    return [(why, guess.tolist()) for why, guess in found] + others


def is_torn(rows, heads, kv_heads, size) -> bool:
    """Whether of some head there are some rows, and not all."""
    return any(
        0 < len({row for row in rows if row // size == head}) < size
        for head in range(heads + 2 * kv_heads)
    )


CONTIGUOUS = (
    "the matrix is cut as if it were one. But first come all queries, then all keys, then all "
    "values: so one rank has queries without their keys, another keys without queries. Cut each "
    "of the three"
)
THIRDS = (
    "three equal sections are taken, but there are fewer keys and values than queries: heads, "
    "kv_heads and kv_heads heads"
)
KEYS_WHOLE = (
    "every rank has all keys and values: a rank needs those of its own queries, and n divides "
    "kv_heads"
)
QUERIES_ALONE = "the keys and values are missing: each rank needs those of its queries, too"
INTERLEAVED = (
    "the right rows, ordered by heads: a query, its key, its value. That is the course's own "
    "order; here, all queries come first, then the keys, then the values"
)
STRIDED_HEADS = (
    "these are every n-th of the heads. A rank has neighbours, the first ranks the first ones: "
    "heads / kv_heads queries in a row share a key, and that one has to be on their rank"
)
STRIDED_ROWS = (
    "every n-th row is taken: this tears the heads apart. The rows of a head stay together, and "
    "neighbouring heads, too"
)
OTHER_RANK = "these are another rank's rows: rank 0 has the first ones of each section"
ORDER = "the right rows in another order: queries, keys and values follow each other as they did"
TORN = (
    "a head is torn apart: all its rows have to be on one rank. How many rows has one head? "
    "len(weight) counts heads queries, kv_heads keys and as many values"
)


EXERCISE = Exercise(
    "7.10", "cut_fused", examine_cut_fused,
    (
        "Draw the matrix for 6 heads and 2 keys: which rows belong to the queries, which to "
        "the keys, which to the values? And which of these does rank 0 of 2 need?",
        "All heads are equally long, so len(weight) // (heads + 2 * kv_heads) is the number of "
        "rows of one.",
        "weight.split([…, …, …]) gives the three sections. Of each, chunk(n)[rank] is this "
        "rank's part; torch.cat puts them together.",
    ),
)  # fmt: skip
