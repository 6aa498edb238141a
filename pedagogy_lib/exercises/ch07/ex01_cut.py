"""A part of a tensor, for each rank: exercise 7.1."""

from dataclasses import dataclass

import torch

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong
from ..kit.differences import first_difference
from ..kit.groups import Calls
from ..kit.on_ranks import IN_A_GROUP
from ..kit.one_world import (
    GROUPS,
    WORLD,
    Case,
    fitting,
    found_in,
    in_memory_of,
    need_tensor,
    need_traffic,
    try_cases,
)
from ..kit.trials import numbers


@dataclass(frozen=True)
class Cut(Case):
    shape: tuple[int, ...] = ()
    dim: int = 0
    unit: int = 1
    turned: bool = False  # whether it is the transpose of one with this shape

    def whole(self):
        x = numbers(7, self.shape, torch.float64)
        x.view(-1).add_(10 * torch.arange(x.numel()))  # no two numbers are the same
        return x.t() if self.turned else x

    def sizes(self, n) -> list[int]:
        return [span(self.whole().shape[self.dim], place, n, self.unit)[1] for place in range(n)]

    def part(self, place, n, unit=None):
        x = self.whole()
        return strip(x, self.dim, *span(x.shape[self.dim], place, n, unit or self.unit))

    def __str__(self):
        unit = f", unit {self.unit}" if self.unit > 1 else ""
        return f"{super().__str__()}, shape {list(self.whole().shape)}, dim {self.dim}{unit}"


CUTS = [
    Cut("rows", shape=(7, 4)),
    Cut("columns", shape=(2, 10), dim=1),
    Cut("a negative dim", shape=(2, 4, 3), dim=-2),
    Cut("units", shape=(12, 2), unit=3),
    Cut("a transposed one", shape=(5, 3), dim=1, turned=True),
    Cut("rows", in_groups=True, shape=(7, 2)),
]
UNEVEN = (
    "parts of another length: chunk makes all but the last one equal, and perhaps fewer than n. "
    "part_sizes says how long each of them is"
)
CUT_ERRORS = {
    "index out of range": UNEVEN,
    "split_sizes to sum": "x.split cuts along dim 0 unless it is told another one",
    "doesn't match tensor size": "the sizes are those of another dim, or not in units",
    "cannot be cut into": "part_sizes takes the length along `dim`: x.shape[dim]",
    "exceeds dimension size": "a part begins where those before it end: sum(sizes[:rank])",
}


def span(length, place, n, unit) -> tuple[int, int]:
    """Where a part of a length begins, and how long it is."""
    units, rest = divmod(length // unit, n)
    return unit * (units * place + min(place, rest)), unit * (units + (place < rest))


def strip(x, dim, start, size):
    """Some of x along dim; as in a slice, less if there is not so much."""
    return x.movedim(dim, 0)[start : start + size].movedim(0, dim)


def examine_cut(answer):
    run = try_cases(cut_on_rank, answer, CUTS, CUT_ERRORS, judge_cut)
    for case, found in found_in(run, CUTS):
        judge_cut(case, dict(enumerate(found)))
        calls = [of["calls"] for of in found]
        need_traffic(case, calls, "cut", 0, "all ranks have the whole: nothing has to travel")
        sizes = " and ".join(str(case.sizes(len(g))) for g in GROUPS) if case.in_groups else None
        yield f"{case}: parts of {sizes or case.sizes(WORLD)}"


def cut_on_rank(answer, group, case):
    whole = case.whole()
    before, unit = whole.clone(), [case.unit] if case.unit > 1 else []
    with Calls() as calls:
        part = answer(whole, case.dim, group, *unit)
    need_tensor(part, "cut")
    return {
        "part": part,
        "touched": not close(whole, before),
        "shares": in_memory_of(part, whole),
        "kept": part.untyped_storage().nbytes(),
        "contiguous": part.is_contiguous(),
        "calls": calls.made,
        "tracked": part.requires_grad,
    }


def judge_cut(case, found):
    """Raise `Wrong` unless each of these ranks has its part. found: {rank: what it has found}."""
    for rank, of in found.items():
        if of["touched"]:
            raise Wrong(str(case), f"rank {rank}: x has changed", "the whole is only to be read")
        wanted = case.part(*case.seat(rank))
        if not close(of["part"], wanted):
            got = [of["part"] for of in found.values()]
            why = fitting(got, (guesses_at_cut(case, r) for r in found))
            what = f"rank {rank}: its part {first_difference(of['part'], wanted)}"
            raise Wrong(str(case), what, why)
    for rank, of in found.items():
        need_own_memory(case, rank, of, case.part(*case.seat(rank)).nbytes)


def guesses_at_cut(case, rank):
    """{sentence: the part that this misconception gives}."""
    x, dim, (place, n) = case.whole(), case.dim, case.seat(rank)
    length, sizes = x.shape[dim], case.sizes(n)
    each = -(-length // n)
    spread = x.movedim(dim, 0)[place::n].movedim(0, dim)
    other = -1 if dim == 0 else 0
    return {
        "`unit` is not looked at: what belongs together is torn apart. part_sizes takes it":
            case.part(place, n, unit=1),
        UNEVEN: strip(x, dim, place * each, each),
        "the rest is on no rank: the first parts are longer. part_sizes says how long":
            strip(x, dim, place * (length // n), length // n),
        "a part begins where those before it end, sum(sizes[:rank]). They may be longer than this "
        "one: rank times its own size is too early":
            strip(x, dim, place * sizes[place], sizes[place]),
        "every rank has the first part: which one is its own, dist.get_rank(group) says":
            strip(x, dim, 0, sizes[0]),
        "every rank has all of it": x,
        "every n-th one: a part is what lies together, one after another": spread,
        "this is cut along another dim than the one that was asked for":
            x.tensor_split(n, other)[place],
        IN_A_GROUP: case.part(rank, WORLD),
    }  # fmt: skip


def need_own_memory(case, rank, of, size):
    if of["shares"]:
        why = VIEW if case.seat(rank)[1] > 1 else SAME_TENSOR
        raise Wrong(str(case), f"rank {rank}: its part is a view into x", why)
    if of["kept"] > size:
        what = f"rank {rank}: its part has {size} bytes, and keeps {of['kept']}"
        raise Wrong(str(case), what, "it is a view into a copy of the whole: copy the part alone")
    if not of["contiguous"]:
        raise Wrong(str(case), f"rank {rank}: its part is not contiguous", STRIDED)
    if of["tracked"]:
        raise Wrong(str(case), f"rank {rank}: its part requires a gradient", "cut only copies")


VIEW = (
    "the numbers are right, but as long as the part lives, all of x keeps its memory: nothing "
    "would be gained. contiguous() copies only what is not contiguous already; clone() always does"
)
SAME_TENSOR = (
    "one rank's part is all of it, and so it is contiguous already: contiguous() returns x itself. "
    "clone() always copies"
)
STRIDED = (
    "clone() keeps the order in memory that x has, transposed here: "
    "clone(memory_format=torch.contiguous_format)"
)


EXERCISE = Exercise(
    "7.1", "cut", examine_cut,
    (
        "part_sizes says how long each part is. Where does this rank's begin?",
        "x.split(sizes, dim) gives views of all parts; the rank's own one is to be copied.",
        "clone() copies, but keeps the order in memory that x has; with "
        "memory_format=torch.contiguous_format it is contiguous.",
    ),
    lab="tensor_parallel",
)  # fmt: skip
