"""A part of a tensor, for each rank: exercise 7.1."""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from ...basics.torch_private import is_in_storage
from ..kit import At, RankExercise, World, never
from ..kit.both_ways import need_tensor, right
from ..kit.counted import Counted
from ..kit.groups import Calls
from ..kit.on_ranks import IN_A_GROUP
from ..kit.trials import numbers

UNEVEN = (
    "parts of another length: chunk makes all but the last one equal, and perhaps fewer than n. "
    "part_sizes says how long each of them is"
)


@dataclass(frozen=True)
class Cut(At):
    shape: tuple[int, ...] = ()
    dim: int = 0
    together: int = 1
    is_turned: bool = False  # whether it is the transpose of one with this shape

    def whole(self):
        x = numbers(7, self.shape, torch.float64) / 3
        x.view(-1).add_(10 * torch.arange(x.numel()))  # no two numbers are the same
        return x.t() if self.is_turned else x

    def __str__(self):
        together = f", together {self.together}" if self.together > 1 else ""
        return f"{super().__str__()}, shape {list(self.whole().shape)}, dim {self.dim}{together}"


def span(length, place, n, together) -> tuple[int, int]:
    """Where a part of a length begins, and how long it is."""
    groups, rest = divmod(length // together, n)
    return together * (groups * place + min(place, rest)), together * (groups + (place < rest))


def strip(x, dim, start, size):
    """Some of x along dim; as in a slice, less if there is not so much."""
    return x.movedim(dim, 0)[start : start + size].movedim(0, dim)


def cut_on_rank(answer, group, case):
    whole = case.whole()
    before, together = whole.clone(), [case.together] if case.together > 1 else []
    with Calls() as calls:
        part = answer(whole, case.dim, group, *together)
    need_tensor(part, "cut")
    is_part = "is_view" if dist.get_world_size(group) > 1 else "is_x"
    return {
        "part": part.detach().clone(),
        "is_changed": not torch.equal(whole, before),
        is_part: is_in_storage(part, whole.untyped_storage()),
        "surplus": part.untyped_storage().nbytes() - part.nbytes,
        "is_strided": not part.is_contiguous(),
        "calls": calls.made,
        "is_tracked": part.requires_grad,
    }


def sizes(trial) -> list[int]:
    case = trial.case
    length = case.whole().shape[case.dim]
    return [span(length, place, trial.n, case.together)[1] for place in range(trial.n)]


def part_of(trial, place):
    case, n, x = trial.case, trial.n, trial.case.whole()
    length, size, dim = x.shape[case.dim], sizes(trial)[place], case.dim
    each, other = -(-length // n), -1 if dim == 0 else 0
    return strip(x, dim, *span(length, place, n, case.together)), {
        "`together` is not looked at: what belongs together is torn apart. part_sizes takes it":
            strip(x, dim, *span(length, place, n, 1)),
        UNEVEN: strip(x, dim, place * each, each),
        "the rest is on no rank: the first parts are longer. part_sizes says how long":
            strip(x, dim, place * (length // n), length // n),
        "a part begins where those before it end, sum(sizes[:rank]). They may be longer than this "
        "one: rank times its own size is too early": strip(x, dim, place * size, size),
        "every rank has the first part: which one is its own, dist.get_rank(group) says":
            strip(x, dim, 0, sizes(trial)[0]),
        "the last rank has the first part: the parts are in the order of the ranks":
            strip(x, dim, *span(length, n - 1 - place, n, case.together)),
        "this is filled up with zeros to the length of the longest part. A part is as long as "
        "part_sizes says": padded(x, case, place, n),
        "every rank has all of it": x,
        "every n-th one: a part is what lies together, one after another":
            x.movedim(dim, 0)[place::n].movedim(0, dim),
        "this is cut along another dim than the one that was asked for":
            x.tensor_split(n, other)[place],
    }  # fmt: skip


def padded(x, case, place, n):
    """A part, and zeros up to the length of the longest one."""
    start, size = span(x.shape[case.dim], place, n, case.together)
    most = span(x.shape[case.dim], 0, n, case.together)[1]
    part = strip(x, case.dim, start, size)
    empty = strip(torch.zeros_like(x), case.dim, 0, most - size)
    return torch.cat([part, empty], case.dim)


EXERCISE = RankExercise(
    "7.1", "cut", lab="tensor_parallel",
    cases=[
        Cut(World(3), what=", rows", shape=(7, 4)),
        Cut(World(3), what=", columns", shape=(2, 10), dim=1),
        Cut(World(3), what=", a negative dim", shape=(2, 4, 3), dim=-2),
        Cut(World(3), what=", groups", shape=(12, 2), together=3),
        Cut(World(3), what=", a transposed one", shape=(5, 3), dim=1, is_turned=True),
        Cut(World(1), what=", rows", shape=(2, 3)),
        Cut(World(3, (1, 2)), what=", rows", shape=(7, 2)),
    ],
    work=cut_on_rank,
    facts=[
        never("is_changed", "x has changed", "the whole is only to be read"),
        right("part", part_of, called="its part"),
        never("is_view", "its part is a view into x",
              "the numbers are right, but as long as the part lives, all of x keeps its memory: "
              "nothing would be gained. contiguous() copies only what is not contiguous already; "
              "clone() always does"),
        never("is_x", "its part is x itself, or a view into it",
              "one rank's part is all of it, and so it is contiguous already: contiguous() returns "
              "x itself. clone() always copies"),
        never("surplus", "its part keeps {} bytes beside its own",
              "it is a view into a copy of the whole: copy the part alone"),
        never("is_strided", "its part is not contiguous",
              "clone() keeps the order in memory that x has, transposed here: "
              "clone(memory_format=torch.contiguous_format)"),
        never("is_tracked", "its part requires a gradient", "cut only copies"),
        Counted(lambda trial: 0, "a cut sends", "all ranks have the whole: nothing has to travel",
                "calls"),
    ],
    told=lambda trial: f"parts of {sizes(trial)}",
    errors={
        "index out of range": UNEVEN,
        "split_sizes to sum": "x.split cuts along dim 0 unless it is told another one",
        "doesn't match tensor size": "the sizes are those of another dim, or not in groups",
        "cannot be cut into": "part_sizes takes the length along `dim`: x.shape[dim]",
        "exceeds dimension size": "a part begins where those before it end: sum(sizes[:rank])",
    },
    explain=lambda case, error: IN_A_GROUP if case.is_group else "",
    hints=(
        "part_sizes says how long each part is. Where does this rank's begin?",
        "x.split(sizes, dim) gives views of all parts; the rank's own one is to be copied.",
        "clone() copies, but keeps the order in memory that x has; with "
        "memory_format=torch.contiguous_format it is contiguous.",
    ),
)  # fmt: skip
