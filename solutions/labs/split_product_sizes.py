# Built from chapters/ch07_tensor_parallel/labs/split_product_sizes.py by `make build`.
"""The parts, work and messages of each rank in a matrix product that is split over ranks."""

from typing import NamedTuple

from placements import PARTIAL, REPLICATE, SHARD

from pedagogy_lib.basics.errors import WrongInput
from pedagogy_lib.basics.units import format_count, short_bytes, short_number

WAYS = ("columns", "rows", "pair")
TITLES = {
    "columns": "Y = X A, A cut by columns",
    "rows": "Y = X A, A cut by rows",
    "pair": "Y = f(X A) B, A cut by columns, B by rows",
}
ITEM_BYTES = 4  # float32


class Matrix(NamedTuple):
    """A matrix of a product.

    sign       the sign in front of it
    placement  Replicate, Shard or Partial
    dim        the dim along which it is cut
    """

    sign: str
    name: str
    rows: int
    columns: int
    placement: str
    dim: int | None = None


class Message(NamedTuple):
    """A message of each rank; if parts are uneven, `numbers` is the average over the ranks."""

    when: str
    what: str
    formula: str
    numbers: float


def check(way, **sizes):
    if way not in WAYS:
        raise WrongInput(f'way is "columns", "rows" or "pair", not {way!r}')
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise WrongInput(f"{name} is a whole number from 1 on, not {size!r}")


def matrices_of(way, rows, inner, columns) -> list[Matrix]:
    """Return the matrices of the forward and, from the sign | on, of the gradient of X."""
    x, dx = ("X", rows, inner), ("dX", rows, inner)
    a, y = ("A", inner, columns), ("Y", rows, columns)
    sum_of_dx = [Matrix("|", *dx, PARTIAL), Matrix("sum", *dx, REPLICATE)]
    if way == "columns":
        product = [Matrix("", *x, REPLICATE), Matrix("·", *a, SHARD, 1), Matrix("=", *y, SHARD, 1)]
        return [*product, *sum_of_dx]
    if way == "rows":
        product = [Matrix("", *x, SHARD, 1), Matrix("·", *a, SHARD, 0), Matrix("=", *y, PARTIAL)]
        return [*product, Matrix("sum", *y, REPLICATE), Matrix("|", *dx, SHARD, 1)]
    return [
        Matrix("", *x, REPLICATE),
        Matrix("·", *a, SHARD, 1),
        Matrix("→", "H = f(XA)", rows, columns, SHARD, 1),
        Matrix("·", "B", columns, inner, SHARD, 0),
        Matrix("=", "Y", rows, inner, PARTIAL),
        Matrix("sum", "Y", rows, inner, REPLICATE),
        *sum_of_dx,
    ]


def messages_of(way, n, rows, inner, columns) -> list[Message]:
    """Return the messages as in a ring: 2(n-1)/n of a summed tensor, (n-1)/n of a gathered one."""
    x, y = rows * inner, rows * (inner if way == "pair" else columns)
    sum_of_y = describe_all_reduce("forward", "Y", y, n)
    sum_of_dx = describe_all_reduce("backward, dX", "dX", x, n)
    if way == "columns":
        messages = [
            describe_silence("forward", "Y stays cut"),
            describe_all_gather("  if each rank needs all of Y:", "Y", y, n),
            sum_of_dx,
        ]
    elif way == "rows":
        messages = [
            sum_of_y,
            describe_silence("backward, dX", "dX stays cut"),
            describe_all_gather("  if each rank needs all of dX:", "dX", x, n),
        ]
    else:
        messages = [
            sum_of_y,
            describe_silence("  from A to B", "H is cut as B needs it"),
            sum_of_dx,
        ]
    # dA is Xᵀ dY: each rank has the parts of X and of dY that belong to its part of A.
    weights = "dA and dB" if way == "pair" else "dA"
    return [*messages, describe_silence(f"backward, {weights}", "both factors are here")]


def describe_silence(when, why) -> Message:
    return Message(when, f"nothing: {why}", "", 0)


def describe_all_reduce(when, name, size, n) -> Message:
    formula = f"2 · {n - 1}/{n} · {short_number(size)}"
    return Message(when, f"all-reduce of {name}", formula, 2 * (n - 1) * size / n)


def describe_all_gather(when, name, size, n) -> Message:
    formula = f"{n - 1}/{n} · {short_number(size)}"
    return Message(when, f"all-gather of {name}", formula, (n - 1) * size / n)


def part_sizes(length, n) -> list[int]:
    """Return the lengths of n parts of a length, as torch.tensor_split cuts it."""
    return [length // n + (rank < length % n) for rank in range(n)]


def work_of(way, n, rows, inner, columns) -> list[tuple[int, int]]:
    """Return, per rank, how much of A (and B) it keeps and its multiplications in the forward."""
    cut, other = (inner, columns) if way == "rows" else (columns, inner)
    kept = [part * other * (2 if way == "pair" else 1) for part in part_sizes(cut, n)]
    return [(count, count * rows) for count in kept]


def idle_ranks(way, n, inner, columns) -> str:
    """Return `Ranks 4 to 7 own nothing: …` if there is less to cut than ranks, else no text."""
    cut, name = (inner, "row") if way == "rows" else (columns, "column")
    if cut >= n:
        return ""
    who = f"Rank {cut} owns" if cut == n - 1 else f"Ranks {cut} to {n - 1} own"
    only = f"A has only {format_count(cut, name)}"
    return f"{who} nothing: {only}. (The lab refuses that.)"


def count_of(message) -> str:
    """Return a message's formula and size, such as `2 · 3/4 · 32 = 48 numbers, 192 B`."""
    if not message.formula:
        return ""
    numbers = short_number(message.numbers)
    sent = short_bytes(message.numbers * ITEM_BYTES)
    return f"{message.formula} = {numbers} numbers, {sent}"


def describe_picture(equation, messages, work, idle="") -> str:
    """Describe in words everything that the picture shows."""
    ways = {None: "", 0: " by rows", 1: " by columns"}
    parts = [f"{m.name} ({m.rows:,} × {m.columns:,}) {m.placement}{ways[m.dim]}" for m in equation]
    kept = [
        f"rank {rank} keeps {short_number(count)} numbers and does "
        f"{short_number(times)} multiplications in the forward"
        for rank, (count, times) in enumerate(work)
    ]
    sent = [" ".join(f"{m.when} {m.what} {count_of(m)}".split()) for m in messages]
    sentences = f"{'; '.join(parts)}. {'; '.join(kept)}. Each rank sends: {'; '.join(sent)}."
    return f"{sentences} {idle}".strip()
