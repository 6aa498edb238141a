"""Gradients of which each rank gets its part."""

from math import prod

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ..kit import GROUP, At, Equals, Holds, RankExercise, Sends, World, answering, never
from ..kit.trials import LARGE, numbers

SHAPES = [(2, 3), (5,), (), (5, 1)]  # 17 numbers: padding for 2, 3 and 4 ranks
CALLS = ("call 1", "call 2")
NO_GRADIENT = (
    "a parameter without a part in the loss has None in `.grad`: it counts as zeros. "
    "gradients_of(unit) gives them"
)
GLOO = (
    "Gloo's reduce_scatter is an all-reduce and a slice: it sends twice "
    "what your ring of exercise 2.6 does"
)
PADDED = "the lengths differ. Gradients are padded as the parameters are: flatten_padded does it"


# ---- On a rank ---


def reduce_twice(answer, group, case):
    alone, is_measured = case.args
    unit = unit_of(answer.lab, SHAPES, group, alone)
    weights, names = [p.detach().clone() for p in unit.parameters], set(vars(unit))
    found = {"part": {}, "kept": {}, "left": []}
    for number, call in enumerate(CALLS):
        for p, gradient in zip(unit.parameters, gradients_at(dist.get_rank(group), number)):
            p.grad = gradient
        answer(unit)
        part = unit.shard.grad
        found["part"][call] = None if part is None else part.detach().clone()
        found["kept"] = part is not None and part.untyped_storage().nbytes() - part.nbytes
        found["left"] += [p.grad for p in unit.parameters if p.grad is not None]
    found["noted"] = sorted(set(vars(unit)) - names)
    found["changed"] = not close([p.detach() for p in unit.parameters], weights)
    if is_measured:
        reduce_large(answer, group, alone)
    return found


def reduce_large(answer, group, alone):
    large = unit_of(answer.lab, [(LARGE + 1,)], group, alone)
    large.parameters[0].grad = torch.ones_like(large.parameters[0])
    dist.barrier(group)
    with answering():
        answer(large)


def unit_of(lab, shapes, group, alone):
    return lab.Unit([nn.Parameter(numbers(0, s, torch.float64)) for s in shapes], group, alone)


def gradients_at(place, number) -> list[torch.Tensor | None]:
    """Other ones at each place. One of them has none at all, the last parameter has none at any."""
    if place == number:
        return [None] * len(SHAPES)
    shapes = enumerate(SHAPES[:-1])
    given = [numbers(place, s, torch.float64, 10 * number + k) + 8 * place for k, s in shapes]
    return [*given, None]


# ---- What is right, and what is not ---


def flat_of(gradients, fill=None):
    """One after another; zeros for a None."""
    sizes = [prod(shape) for shape in SHAPES]
    flat = torch.zeros(sum(sizes), dtype=torch.float64)
    for part, gradient in zip(flat.split(sizes), gradients):
        if gradient is not None:
            part += gradient.flatten() if fill is None else fill
    return flat


def part_of(flat, n, place):
    """A place's part of a tensor that is padded and cut into n."""
    each = -(-len(flat) // n)
    part = flat.new_zeros(each)
    mine = flat[place * each : (place + 1) * each]
    part[: len(mine)] = mine
    return part


def by_call(trial, of_call, keeps=1.0):
    """{call: of_call(flat gradients of each rank, how many ranks have one)}, added up.

    keeps  by what the sum so far is multiplied, before a call's is added
    """
    found, before = {}, 0.0
    for number, call in enumerate(CALLS):
        local = [gradients_at(place, number) for place in range(trial.n)]
        have = sum(flat_of(of, 1.0) for of in local).clamp(min=1)
        flats = list(map(flat_of, local))
        found[call] = before = of_call(flats, have) + keeps * before
    return found


def mean_part(trial, place, of=None, keeps=1.0):
    k = place if of is None else of % trial.n
    return by_call(trial, lambda flats, _: part_of(sum(flats) / trial.n, trial.n, k), keeps)


def mistakes(trial, place):
    n, case = trial.n, trial.case

    def part(of_call):
        return by_call(trial, lambda flats, have: part_of(of_call(flats, have), n, place))

    if case.is_group:  # in the worlds before it was right
        return {
            "the sum is divided by the size of the world, but it has only the ranks of the group "
            "in it: unit.n": part(lambda flats, _: sum(flats) / case.world.size),
            "these are wrong chunks: unit.rank counts within the group, dist.get_rank() in the "
            "world": mean_part(trial, place, case.ranks[place]),
        }
    right = mean_part(trial, place)
    return {
        "this is the sum. The mean is the sum divided by n, of the group":
            part(lambda flats, _: sum(flats)),
        "it is divided by n twice: the mean, divided by n again":
            part(lambda flats, _: sum(flats) / n**2),
        "this is the rank's own gradient, nothing has been summed up: reduce_scatter_ring works in "
        "the chunks that it is given": part(lambda flats, _: flats[place]),
        "the rank's own gradient is divided by n, and nothing is summed up: reduce_scatter_ring "
        "works in the chunks that it is given": part(lambda flats, _: flats[place] / n),
        "this is zero: the gradients were let go of before they were put into the flat tensor":
            part(lambda flats, _: 0 * flats[0]),
        "it is divided by how many ranks have a gradient. One that has None counts, too: as zeros":
            part(lambda flats, have: sum(flats) / have),
        "everybody has chunk 0 of the mean: rank k gets chunk k": mean_part(trial, place, 0),
        "everybody has the next rank's chunk: rank k gets chunk k of the mean":
            mean_part(trial, place, place + 1),
        "everybody has the chunk of the rank before: rank k gets chunk k of the mean":
            mean_part(trial, place, place - 1),
        "this is the mean of this call alone: a gradient that was there before is lost. Each "
        "backward calls this, until the step: they add up": mean_part(trial, place, keeps=0.0),
        "what was in shard.grad is a mean already, and is divided by n once more: only what this "
        "call brings is a sum": mean_part(trial, place, keeps=1 / n),
        "the second call has changed nothing: what comes is added to what is there":
            dict.fromkeys(right, right["call 1"]),
    }  # fmt: skip


def why_not_given(trial, place) -> str:
    if all(None in of.part.values() for of in trial):
        return "the part of this rank goes into unit.shard.grad: that is where its optimizer looks"
    return (
        "other ranks have their parts, this one has taken none. It takes part whatever gradients "
        "it has: those that are missing count as zeros, gradients_of(unit) gives them"
    )


def why_left(trial, place) -> str:
    if any(x.any() for x in trial[place].left):
        return (
            "the gradients of the whole unit are still in memory. Who needs them? Set `.grad` of "
            "each parameter to None"
        )
    return (
        "a tensor of zeros takes as much memory as the gradient did: `.grad = None` lets go of it, "
        "zero_() does not"
    )


EXERCISE = RankExercise(
    "6.3",
    "reduce_gradients",
    lab="zero",
    needs=("6.2", "2.6"),
    cases=[
        At(World(2), (False, False)),
        At(World(3), (True, False), ", shards in memory of their own"),
        At(World(1), (False, False)),
        At(GROUP, (False, False)),
        At(World(4), (True, True), ", shards in memory of their own"),
    ],
    work=reduce_twice,
    facts=[
        never("changed", "the parameters themselves have changed",
              "unit.chunks are views into unit.flat, which holds the parameters: make a flat "
              "tensor of the gradients, and cut that one"),
        Holds("part", lambda part: None not in part.values(), "unit.shard.grad is None",
              why_not_given),
        Equals("part", mean_part, mistakes, "shard.grad after"),
        never("left", lambda left: "shard.grad is right, but parameters still have a `.grad`: "
              f"{len(left)} in two calls", why_left),
        never("kept", "shard.grad keeps {} bytes alive beside its own",
              "a chunk is a view: as long as it lives, the memory of the whole flat tensor does. "
              "Give shard.grad a tensor of its own: what a division returns is one, clone() makes "
              "one"),
        never("noted", lambda names: f"afterwards the unit has unit.{names[0]}",
              "what is put there stays in memory until the next call: nothing else is to be kept"),
        Sends(
            lambda trial, place: trial.case.args[1]
            and 8 * -(-(LARGE + 1) // trial.n) * (trial.n - 1),
            "a reduce-scatter sends",
            {
                "reduce_scatter": GLOO,
                "all_reduce": "everybody gets the whole sum, and keeps a part: an all-reduce sends "
                "twice as much as a reduce-scatter",
                "all_gather": "everybody's gradients travel to everybody, and each rank needs a "
                "part of them alone",
                "": "a rank sends on more than its part: in a reduce-scatter all share the load",
            },
        ),
    ],
    told="each has its part of the mean; a second one is added",
    errors={
        "out of range": "",
        "NoneType": NO_GRADIENT,
        "expected Tensor as element": NO_GRADIENT,
        "attempting to assign a gradient of size": "the shard's gradient is as large as the shard: "
        "this rank's chunk of the mean, and no more",
        "EnforceNotMet": "ranks send what differs in length. Is a parameter without a gradient "
        "passed over? It counts as zeros: gradients_of(unit) gives them",
        "must match the size of tensor": PADDED,
        "inconsistent tensor size": PADDED,
        "divisible by": PADDED,
    },
    lost="every rank has to make the same calls, with tensors of the same size",
    hints=(
        "In this order: a flat tensor of the gradients, let go of the parameters' own, "
        "reduce-scatter, mean, add it to the shard's gradient.",
        "flatten_padded(gradients_of(unit), unit.n).chunk(unit.n) are n chunks of the "
        "gradients. reduce_scatter_ring(chunks, unit.group) leaves the sum in this rank's.",
        "Divide by unit.n, into a new tensor: a view, as a chunk is one, would keep the memory "
        "of all chunks.",
        "mean = chunks[unit.rank] / unit.n; then shard.grad is mean, or shard.grad + mean. And "
        "p.grad = None for each p of unit.parameters.",
    ),
)  # fmt: skip
