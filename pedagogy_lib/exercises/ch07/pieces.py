"""Into and out of the parallel region with pieces of the context: exercises 7.15 and 7.16.

Both are made of two collectives: one puts the ranks' pieces together, the other adds up and gives
each rank its piece. What is one's forward is the other's backward.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from ...course.checking import Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.on_ranks import IN_A_GROUP
from ..kit.trials import kind_of, numbers, same
from ..kit.worlds import explain_by

CONTEXT = 1  # the dim of (samples, context, …) that is cut
PIECE = {  # the shape of each rank's piece, in groups: as many samples as ranks, or more
    ((0, 1, 2),): (3, 3, 2),
    ((0,), (1, 2)): (2, 4),
}
SAME_CALLS = "every rank of a group has to make the same calls, in the same order"


@dataclass(frozen=True)
class Region:
    """One of both exercises: whether its forward puts together, or else its backward does."""

    name: str
    gathers: bool

    def puts_together(self, direction) -> bool:
        return self.gathers == (direction == "forward")

    def input_shape(self, piece, n):
        return piece if self.gathers else whole_shape(piece, n)

    def output_shape(self, piece, n):
        return whole_shape(piece, n) if self.gathers else piece


GATHER, SCATTER = Region("AllGather", True), Region("ReduceScatter", False)


def whole_shape(piece, n):
    return (piece[0], n * piece[1], *piece[2:])


def piece_of(x, place, n):
    return x.tensor_split(n, CONTEXT)[place]


# ---- On a rank -------------------------------------------------------------------------------


def explain_in_rank(meanings, mismatch=""):
    """As `explain_by`; a `Wrong` that a rank has raised goes on as it is."""
    explain = explain_by(meanings, mismatch)

    def told(error):
        if isinstance(getattr(error, "exception", None), Wrong):
            raise error.exception from None
        return explain(error)

    return told


def group_of_rank(groups):
    """This rank's group of those that the world is divided into; None if there is one alone."""
    if len(groups) == 1:
        return None
    made = {members: dist.new_group(list(members)) for members in groups}
    return next(made[members] for members in groups if dist.get_rank() in members)


def told_groups(groups) -> str:
    n = sum(map(len, groups))
    if len(groups) == 1:
        return f"{n} ranks"
    return f"groups {' and '.join(str(list(members)) for members in groups)} among {n} ranks"


def need_function(answer, case):
    """The learner's autograd function; raises `Wrong` if it is something else now."""
    found = getattr(answer.lab, answer.__name__)
    if not isinstance(found, type) or not issubclass(found, torch.autograd.Function):
        what = f"{answer.__name__} is {type(found).__name__} now"
        why = f"it is to remain a class {answer.__name__}(torch.autograd.Function)"
        raise Wrong(case, what, f"{why}: the others call its apply")
    return found


def need_ring(answer, group, case):
    """Raise `Wrong` unless the ring of chapter 02 does what summed_piece counts on."""
    place, n = dist.get_rank(group), dist.get_world_size(group)
    x = torch.arange(1.0, n + 1)
    answer.lab.reduce_scatter_ring(x.chunk(n), group)
    if x[place] != n * (place + 1):
        raise Wrong(case, "reduce_scatter_ring does not give the sum", 'first: check("2.6")')


def through_region(answer, region, groups) -> dict:
    """A forward and a backward of one rank: what went in, and what came out."""
    case, group = told_groups(groups), group_of_rank(groups)
    function = need_function(answer, case)
    need_ring(answer, group, case)
    rank, n, piece = dist.get_rank(), dist.get_world_size(group), PIECE[groups]
    x = numbers(rank, region.input_shape(piece, n), torch.float64).requires_grad_()
    before = x.detach().clone()
    with measure("forward"):
        y = function.apply(x, group)
    slope = numbers(rank, region.output_shape(piece, n), torch.float64, salt=1)
    need_output(y, region, piece, n, f"{case}, rank {rank}")
    loss, seen = (y * slope).sum(), []
    y.register_hook(seen.append)
    with measure("backward"):
        (gradient,) = torch.autograd.grad(loss, x, allow_unused=True)
    return {
        "forward": (before, y.detach().clone()),
        "backward": (slope, gradient),
        "changed": [name for name, old, new in (("x", before, x.detach()),
                    ("the incoming gradient", slope, seen[0])) if not same(old, new)],
    }  # fmt: skip


def need_output(y, region, piece, n, case):
    """Raise `Wrong` unless the forward has returned a tensor of the right shape."""
    if not isinstance(y, torch.Tensor):
        why = "a function without `return` gives None" if y is None else "return a tensor"
        raise Wrong(case, f"forward returned {type(y).__name__}", why)
    wanted = region.output_shape(piece, n)
    if y.shape != wanted or y.dtype != torch.float64:
        what = f"forward returned {kind_of(y)}, expected float64{list(wanted)}"
        why = why_shape(tuple(y.shape), piece, n, region)
        raise Wrong(case, what, why or (IN_A_GROUP if n < dist.get_world_size() else ""))


def why_shape(got, piece, n, region) -> str:
    samples, context, *rest = piece
    if region.gathers:
        return {
            (n * samples, context, *rest): "the pieces are joined along dim 0, the samples. They "
            "are pieces of the context, which is dim 1",
            piece: "one piece is not the whole context: the others' are to come, too",
            (samples, context // n, *rest): MIXED_UP[region],
            (n, *piece): "stack makes a new dim: the pieces are to be one after another along the "
            "context, dim 1",
        }.get(got, "")
    return {
        whole_shape(piece, n): "this is the whole context. Each rank goes on with its piece alone: "
        "rank k with the k-th",
        whole_shape(piece, n * n): MIXED_UP[region],
        (samples // n, n * context, *rest): "cut are the samples, dim 0. The context is dim 1",
    }.get(got, "")


MIXED_UP = {
    GATHER: "forward and backward are mixed up: AllGather joins pieces in its forward",
    SCATTER: "forward and backward are mixed up: ReduceScatter adds up in its forward, and each "
    "rank keeps its piece of the sum",
}


# ---- Judging ---------------------------------------------------------------------------------


def examine_region(region):
    def examine(answer):
        for groups in PIECE:
            case = told_groups(groups)
            in_groups = len(groups) > 1
            meanings = errors_of(region, in_groups)
            run = try_on_ranks(
                case, through_region, answer, region, groups, world_size=3,
                explain=explain_in_rank(meanings, IN_A_GROUP if in_groups else SAME_CALLS),
            )  # fmt: skip
            for members in groups:
                judge(case, region, {rank: run.values[rank] for rank in members})
            yield f"{case}: forward {TOLD[region.gathers]}, backward {TOLD[not region.gathers]}"
            if not in_groups:
                yield judge_cost(f"cost, {case}", region, run)

    return examine


TOLD = {True: "all ranks' pieces, joined", False: "this rank's piece of the sum"}


def errors_of(region, in_groups) -> dict[str, str]:
    """{words of an error: what they mean}"""
    of_x = "the piece" if region.gathers else "x"
    shape = "a piece of the context" if region.gathers else "all of the context"
    known = {
        "incorrect number of gradients": "backward returns one gradient for each argument of "
        f"forward after ctx: that of {of_x}, and None for group",
        "invalid gradient at index 0": f"what backward returns first is the gradient of {of_x}, "
        f"and so of the same shape: {shape}. What comes in has the shape of the output",
        "has no attribute 'group'": "backward gets nothing but ctx and the gradient. What else it "
        "needs forward has to keep: ctx.group = group",
        "save_for_backward can only save": "save_for_backward is for tensors: ctx.group = group",
        "name 'group' is not defined": "forward has to keep it: ctx.group = group",
        "cannot have equal pieces": MIXED_UP[region],
        "non-static forward": STATIC,
        "must implement either the backward": STATIC,
    }
    first_seen = ("out of range", "cannot have equal pieces", "invalid gradient at index 0")
    return known | (dict.fromkeys(first_seen, IN_A_GROUP) if in_groups else {})


STATIC = "it keeps two methods, forward and backward, each under @staticmethod"


def judge(case, region, found):
    """Raise `Wrong` unless the ranks of a group have the right outputs and gradients.

    found  {rank: what `through_region` has found}
    """
    n = len(found)
    for direction in ("forward", "backward"):
        before, after = zip(*(of[direction] for of in found.values()))
        together = region.puts_together(direction)
        for place, (rank, got) in enumerate(zip(found, after)):
            wanted = truth(before, place, n, together)
            if got is None:
                raise Wrong(case, f"rank {rank}: x has no gradient", NO_GRADIENT)
            if same(got, wanted):
                continue
            first = tuple((got != wanted).nonzero()[0].tolist())
            name = "the output" if direction == "forward" else "the gradient of x"
            what = f"{direction}, rank {rank}: {name} at {list(first)} is {got[first]:g}"
            why = why_values(before, after, n, together, direction)
            raise Wrong(case, f"{what}, expected {wanted[first]:g}", why)
    for rank, of in found.items():
        if of["changed"]:
            what = f"the numbers are right, but on rank {rank} {of['changed'][0]} has changed"
            raise Wrong(case, what, IN_PLACE)


def truth(tensors, place, n, together):
    return torch.cat(tensors, CONTEXT) if together else piece_of(sum(tensors), place, n)


NO_GRADIENT = "backward has returned None for x: its gradient comes first"
IN_PLACE = (
    "somebody else may still need what was handed in: a relu its output, for its backward, a "
    "residual the gradient. joined and summed_piece leave it alone"
)
SCALED = {
    "forward": "this is the mean: nobody asked to divide by n",
    "backward": "nothing is to be divided by n: this is no mean over ranks, they share one loss",
}
OWN = {
    "forward": "this is a piece of the rank's own x: nothing is added up",
    "backward": "this is a piece of the rank's own gradient, as if all had the same. Behind "
    "AllGather each rank computes with its own part of A, and the gradients that come back "
    "differ: their sum is x's",
}
PADDED = {
    "forward": "there are zeros where the others' pieces belong",
    "backward": "there are zeros where the others' pieces belong. Each rank's x went into all "
    "pieces of the sum: so its gradient is everybody's, joined",
}


def why_values(before, after, n, together, direction) -> str:
    """The misconception that gives these outputs on all ranks."""
    guesses = together_guesses if together else sum_guesses
    by_place = [guesses(before, place, n, direction) for place in range(n)]
    fits = lambda why: all(same(got, of[why]) for got, of in zip(after, by_place))  # noqa: E731
    return next(filter(fits, by_place[0]), "")


def sum_guesses(tensors, place, n, direction) -> dict[str, torch.Tensor]:
    """{misconception: the piece of the sum that it gives}"""
    own, total = piece_of(tensors[place], place, n), sum(tensors)
    return {
        OWN[direction]: own,
        f"{OWN[direction]}. (This is it, {n} times)": n * own,
        SCALED[direction]: piece_of(total, place, n) / n,
        "every rank has the first piece of the sum: rank k is to have the k-th":
            piece_of(total, 0, n),
        "these are rank 0's numbers: everybody's are to be added up":
            piece_of(tensors[0], place, n),
    }  # fmt: skip


def together_guesses(tensors, place, n, direction) -> dict[str, torch.Tensor]:
    """{misconception: the whole context that it gives}"""
    own, joined = tensors[place], torch.cat(tensors, CONTEXT)
    padded = torch.cat([own * (k == place) for k in range(n)], CONTEXT)
    return {
        PADDED[direction]: padded,
        "the rank's own piece stands there for all pieces: everybody's are to be joined":
            torch.cat([own] * n, CONTEXT),
        SCALED[direction]: joined / n,
        f"this is {n} times too much: joined already has everybody's pieces, nothing is left to "
        "add up": n * joined,
        "the pieces are there, in a wrong order: piece k is rank k's":
            torch.cat(tensors[::-1], CONTEXT),
    }  # fmt: skip


def judge_cost(case, region, run) -> str:
    """Exactly, by the calls: they tell what was handed to them, without headers."""
    n = run.world_size
    for direction in ("forward", "backward"):
        x = max(run.values[0][direction], key=torch.numel)
        best = (n - 1) * x.nbytes // n
        sent = [sum(call.sent_bytes for call in run[direction].calls[r]) for r in range(n)]
        if max(sent) > best:
            what = f"rank {sent.index(max(sent))} sends {max(sent)} bytes {direction}"
            raise Wrong(case, f"{what}, expected {best}", SENT_MORE.get(max(sent) / best, TOO_MUCH))
    return f"{case}: {best} bytes from each rank forward, and as many backward"


TOO_MUCH = "the numbers are right, but more is sent than joined and summed_piece send"
SENT_MORE = {  # how many times as much, on 3 ranks
    2: "the numbers are right, but an all-reduce sends twice what is needed: it is a "
    "reduce-scatter and an all-gather, and one of them is enough",
    3: "the numbers are right, but everybody sends all it has to everybody",
}
