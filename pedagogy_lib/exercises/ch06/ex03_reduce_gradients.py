"""Gradients of which each rank gets its part: exercise 6.3."""

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong
from ..ch02.ex06_reduce_scatter_ring import EXERCISE as REDUCE_SCATTER
from ..kit.differences import first_difference
from ..kit.on_ranks import IN_A_GROUP, answering
from ..kit.parts import after
from ..kit.trials import LARGE, TOLERANCE, megabytes, numbers
from ..kit.worlds import GROUP, At, World, explain_by, try_at
from .sharding import examine_flatten_padded

SHAPES = [(2, 3), (5,), (), (5, 1)]  # 17 numbers: padding for 2, 3 and 4 ranks
WORLDS = [  # where, and whether shards have memory of their own
    (World(2), False), (World(3), True), (World(1), False), (GROUP, False), (World(4), True),
]  # fmt: skip
NO_GRADIENT = (
    "a parameter without a part in the loss has None in `.grad`: it counts as zeros. "
    "gradients_of(unit) gives them"
)
PADDED = "gradients are padded as the parameters are: flatten_padded does it"
ERRORS = {
    "NoneType": NO_GRADIENT,
    "expected Tensor as element": NO_GRADIENT,
    "attempting to assign a gradient of size": "the shard's gradient is as large as the shard: "
    "this rank's chunk of the mean, and no more",
    "EnforceNotMet": "ranks send what differs in length. Is a parameter without a gradient passed "
    "over? It counts as zeros: gradients_of(unit) gives them",
    "must match the size of tensor": f"the lengths differ. {PADDED}",
    "inconsistent tensor size": f"the lengths differ. {PADDED}",
    "divisible by": f"the lengths differ. {PADDED}",
}
LOST = "every rank has to make the same calls, with tensors of the same size"


# ---- What is tried ---------------------------------------------------------------------------


def examine_reduce_gradients(answer):
    cases = [
        At(world, (alone, world == World(4)), ", shards in memory of their own" * alone)
        for world, alone in WORLDS
    ]
    for at, found, traffic in try_at(cases, reduce_on_rank, answer, explain_reduce):
        case, world, (_, with_cost) = str(at), at.world, at.args
        judge_calls(case, [of["calls"] for of in found], world)
        yield f"{case}: each has its part of the mean; a second one is added"
        if with_cost:
            yield need_one_reduce_scatter(world, found[0]["flat_bytes"], traffic)


def explain_reduce(at):
    if not at.is_group:
        return explain_by(ERRORS, LOST)
    return explain_by(ERRORS | {"out of range": IN_A_GROUP, "not part of": IN_A_GROUP}, IN_A_GROUP)


def reduce_on_rank(answer, group, alone, with_cost):
    unit = unit_of(answer.lab, SHAPES, group, alone)
    found = {"calls": [reduce_once(answer, unit, group, number) for number in range(2)]}
    if with_cost:
        large = unit_of(answer.lab, [(LARGE + 1,)], group, alone)
        large.parameters[0].grad = torch.ones_like(large.parameters[0])
        dist.barrier(group)
        with answering():
            answer(large)
        found["flat_bytes"] = large.flat.nbytes
    return found


def unit_of(lab, shapes, group, alone):
    return lab.Unit([nn.Parameter(numbers(0, s, torch.float64)) for s in shapes], group, alone)


def reduce_once(answer, unit, group, number):
    give_gradients(unit, dist.get_rank(group), number)
    weights = [p.detach().clone() for p in unit.parameters]
    local = [None if p.grad is None else p.grad.flatten().clone() for p in unit.parameters]
    answer(unit)
    got = unit.shard.grad
    return {
        "sizes": [p.numel() for p in unit.parameters],
        "local": local,
        "got": None if got is None else got.detach().clone(),
        "memory": None if got is None else got.untyped_storage().nbytes(),
        "left": [p.grad for p in unit.parameters if p.grad is not None],
        "changed": any(not close(p.detach(), old) for p, old in zip(unit.parameters, weights)),
    }


def give_gradients(unit, place, number):
    """Other ones at each place. The second parameter has none at one of them, the last at none."""
    for index, p in enumerate(unit.parameters):
        p.grad = numbers(place, p.shape, p.dtype, 10 * number + index) + 8 * place
    unit.parameters[-1].grad = None
    if place == number:
        unit.parameters[1].grad = None


# ---- Judging ---------------------------------------------------------------------------------

WEIGHTS = (
    "unit.chunks are views into unit.flat, which holds the parameters: make a flat tensor of the "
    "gradients, and cut that one"
)
NOT_GIVEN = "the part of this rank goes into unit.shard.grad: that is where its optimizer looks"
NOT_HERE = (
    "other ranks have their parts, this one has taken none. It takes part whatever gradients it "
    "has: those that are missing count as zeros, gradients_of(unit) gives them"
)
NOT_FREED = (
    "the gradients of the whole unit are still in memory. Who needs them? Set `.grad` of each "
    "parameter to None"
)
ZEROS = (
    "a tensor of zeros takes as much memory as the gradient did: `.grad = None` lets go of it, "
    "zero_() does not"
)
VIEW = (
    "a chunk is a view: as long as it lives, the memory of the whole flat tensor does. Give "
    "shard.grad a tensor of its own: what a division returns is one, clone() makes one"
)


def judge_calls(case, calls, world):
    """Raise `Wrong` unless after each call everybody has its part of the means, and no more.

    calls  of each place, in order
    """
    n, earlier = len(calls), [0.0] * len(calls)
    for number, of_places in enumerate(zip(*calls)):
        flats = [flat_of(of["local"], of["sizes"]) for of in of_places]
        wanted = [old + part_of(sum(flats) / n, n, k) for k, old in enumerate(earlier)]
        for place, (of, right) in enumerate(zip(of_places, wanted)):
            where = f"rank {place}, call {number + 1}: "
            if of["changed"]:
                raise Wrong(case, where + "the parameters themselves have changed", WEIGHTS)
            if of["got"] is None:
                why = NOT_GIVEN if all(x["got"] is None for x in of_places) else NOT_HERE
                raise Wrong(case, where + "unit.shard.grad is None", why)
            if not close(of["got"], right):
                what = f"{where}shard.grad {first_difference(of['got'], right)}"
                raise Wrong(case, what, why_part(of_places, flats, earlier, world))
            judge_memory(case, where, of)
        earlier = wanted


def judge_memory(case, where, of):
    if of["left"]:
        what = f"{where}shard.grad is right, but {len(of['left'])} parameters still have a `.grad`"
        raise Wrong(case, what, NOT_FREED if any(x.any() for x in of["left"]) else ZEROS)
    if of["memory"] > of["got"].nbytes:
        what = f"{where}shard.grad keeps {of['memory']} bytes alive, it has {of['got'].nbytes}"
        raise Wrong(case, what, VIEW)


def flat_of(gradients, sizes):
    """One after another; zeros for a None."""
    flat = torch.zeros(sum(sizes), dtype=torch.float64)
    for part, gradient in zip(flat.split(sizes), gradients):
        if gradient is not None:
            part += gradient
    return flat


def part_of(flat, n, place):
    """A place's part of a tensor that is padded and cut into n."""
    each = -(-len(flat) // n)
    part = flat.new_zeros(each)
    mine = flat[place * each : (place + 1) * each]
    part[: len(mine)] = mine
    return part


def why_part(of_places, flats, earlier, world) -> str:
    got = [of["got"] for of in of_places]
    for why, guess in guesses_at_part(of_places, flats, world).items():
        if all(close(mine, guess(place) + earlier[place]) for place, mine in enumerate(got)):
            return why
    n, places = len(flats), range(len(flats))
    if all(close(got[k], part_of(sum(flats) / n, n, k)) for k in places):
        return (
            "this is the mean of this call alone: a gradient that was there before is lost. Each "
            "backward calls this, until the step: they add up"
        )
    if all(close(mine, old) for mine, old in zip(got, earlier)):
        return "the second call has changed nothing: what comes is added to what is there"
    return ""


def guesses_at_part(of_places, flats, world):
    """{sentence: place -> the part that a misconception gives}."""
    n, total, own = len(flats), sum(flats), [of["local"] for of in of_places]
    ones = [flat_of([x if x is None else torch.ones_like(x) for x in of], of_places[0]["sizes"])
            for of in own]  # fmt: skip
    return {
        "this is the sum. The mean is the sum divided by n, of the group":
            lambda k: part_of(total, n, k),
        "it is divided by n twice: the mean, divided by n again":
            lambda k: part_of(total / n**2, n, k),
        "the sum is divided by the size of the world, but it has only the ranks of the group in "
        "it: unit.n": lambda k: part_of(total / world.size, n, k),
        "this is the rank's own gradient, nothing has been summed up: reduce_scatter_ring works in "
        "the chunks that it is given": lambda k: part_of(flats[k], n, k),
        "the rank's own gradient is divided by n, and nothing is summed up: reduce_scatter_ring "
        "works in the chunks that it is given": lambda k: part_of(flats[k] / n, n, k),
        "this is zero: the gradients were let go of before they were put into the flat tensor":
            lambda k: part_of(0 * total, n, k),
        "it is divided by how many ranks have a gradient. One that has None counts, too: as zeros":
            lambda k: part_of(total / sum(ones).clamp(min=1), n, k),
        "everybody has chunk 0 of the mean: rank k gets chunk k":
            lambda k: part_of(total / n, n, 0),
        "everybody has the next rank's chunk: rank k gets chunk k of the mean":
            lambda k: part_of(total / n, n, (k + 1) % n),
        "everybody has the chunk of the rank before: rank k gets chunk k of the mean":
            lambda k: part_of(total / n, n, (k - 1) % n),
        "these are wrong chunks: unit.rank counts within the group, dist.get_rank() in the world":
            lambda k: part_of(total / n, n, world.ranks[k] % n),
    }  # fmt: skip


# ---- Cost ------------------------------------------------------------------------------------

WHOLE = (
    "the numbers are right, but everybody gets the whole sum, and keeps a part: an all-reduce "
    "sends twice as much as a reduce-scatter"
)
GLOO = (
    "the numbers are right. But Gloo's reduce_scatter is an all-reduce and a slice: it sends twice "
    "what the ring of exercise 2.6 does. reduce_scatter_ring(chunks, group)"
)
ALL_TO_ALL = (
    "the numbers are right, but everybody's gradients travel to everybody, and each rank needs a "
    "part of them alone"
)
ONE_RANK = (
    "the numbers are right, but a rank sends on more than its part: in a reduce-scatter all share "
    "the load"
)


def need_one_reduce_scatter(world, flat_bytes, traffic) -> str:
    case, n = f"cost, {world}", len(traffic)
    best = (n - 1) / n * flat_bytes
    for place, (calls, sent) in enumerate(traffic):
        if sent > best * (1 + TOLERANCE):
            what = f"rank {place} sends {megabytes(sent)}; a reduce-scatter sends {megabytes(best)}"
            raise Wrong(case, what, why_so_much({call.name for call in calls}))
    return f"{case}: a rank sends {megabytes(best)} of {megabytes(flat_bytes)}"


def why_so_much(names) -> str:
    if names & {"reduce_scatter", "reduce_scatter_tensor"}:
        return GLOO
    if "all_reduce" in names:
        return WHOLE
    if "all_gather" in names:
        return ALL_TO_ALL
    return ONE_RANK


EXERCISE = Exercise(
    "6.3", "reduce_gradients", after(
        examine_reduce_gradients,
        ("6.2", "flatten_padded", examine_flatten_padded),
        ("2.6", "reduce_scatter_ring", REDUCE_SCATTER.examine),
    ),
    (
        "In this order: a flat tensor of the gradients, let go of the parameters' own, "
        "reduce-scatter, mean, add it to the shard's gradient.",
        "flatten_padded(gradients_of(unit), unit.n).chunk(unit.n) are n chunks of the "
        "gradients. reduce_scatter_ring(chunks, unit.group) leaves the sum in this rank's.",
        "Divide by unit.n, into a new tensor: a view, as a chunk is one, would keep the memory "
        "of all chunks.",
        "mean = chunks[unit.rank] / unit.n; then shard.grad is mean, or shard.grad + mean. And "
        "p.grad = None for each p of unit.parameters.",
    ),
    lab="zero",
)  # fmt: skip
