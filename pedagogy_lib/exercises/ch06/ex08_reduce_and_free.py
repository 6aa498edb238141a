"""A program of ZeRO's stage 2 with two bugs: memory that is not freed."""

from math import prod

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World, never
from ..kit.outcomes import plain
from ..kit.trials import numbers
from .broken_zero import MIXES
from .ex03_reduce_gradients import part_of

FINDS_A_BUG = True


def tensors_for(rank, shapes):
    """Thirds, which no float32 holds."""
    return [numbers(rank, shape, torch.float64, salt) / 3 for salt, shape in enumerate(shapes)]


def gradients_of(trial):
    """Of each rank: flat."""
    each = (tensors_for(rank, trial.case.args) for rank in range(trial.n))
    return [torch.cat([x.flatten() for x in tensors]) for tensors in each]


def right(trial, place):
    return part_of(sum(gradients_of(trial)) / trial.n, trial.n, place)


def try_reduce(answer, group, case):
    """What it gives, and what is in memory because of it."""
    parameters, before = ([nn.Parameter(x) for x in tensors_for(9, case.args)] for _ in range(2))
    for parameter, gradient in zip(parameters, tensors_for(dist.get_rank(), case.args)):
        parameter.grad = gradient
    del gradient
    got = answer(parameters)
    return {
        "changed": not all(map(torch.equal, parameters, before)),
        "left": [p.grad.nbytes for p in parameters if p.grad is not None],
        "kept": got.untyped_storage().nbytes() if isinstance(got, torch.Tensor) else 0,
        "part": plain(got),
    }


def mistakes(trial, place):
    n, gradients = trial.n, gradients_of(trial)
    mean = sum(gradients) / n
    each = -(-len(mean) // n)
    each_alone = [part_of(x, n, place) for x in mean.split([prod(s) for s in trial.case.args])]
    return {
        **{why: part_of(mix(place, gradients), n, place) for why, mix in MIXES.items()},
        "each gradient is padded, and cut into parts, by itself: a part of all together is "
        "ceil(numbers / n) long, and has its padding at the end of the last": torch.cat(each_alone),
        "the padding is at the beginning, so all is shifted: it belongs at the end. F.pad takes "
        "(before, after)":
            F.pad(mean, (each * n - len(mean), 0))[place * each : (place + 1) * each],
        "with padding all parts are equally long; leave it there": mean[place * each :][:each],
        "that is all of it, with padding; each rank keeps a part":
            F.pad(mean, (0, each * n - len(mean))),
        "that is all of it; each rank keeps a part": mean,
        **{f"this is rank {k}'s part": part_of(mean, n, k) for k in range(n) if k != place},
    }  # fmt: skip


def need_freed(trial):
    """Raise `Wrong` if something is in memory beside the part; names all there is."""
    for place, of in enumerate(trial):
        what, why = [], []
        if of.kept > of.part.nbytes:
            what.append(
                f"the returned part has {of.part.nbytes} bytes, and keeps {of.kept} bytes alive"
            )
            why.append(A_VIEW)
        if of.left:
            gradients = "a `.grad`" if len(of.left) == 1 else f"{len(of.left)} gradients"
            what.append(f"the parameters still have {gradients}, of {sum(of.left)} bytes")
            why.append(STILL_THERE if sum(of.left) else EMPTY)
        if what:
            both = "the numbers are right, as before; the memory still is not"
            what = f"{trial.who(place)}: {'; and '.join(what)}"
            raise Wrong(str(trial.case), what, why[0] if len(why) == 1 else both)


STILL_THERE = (
    "a gradient of zeros has as many bytes as any other. The parameter itself has to let go of it: "
    "a name for it in the function, or `del` of such a name, changes nothing in the parameter"
)
EMPTY = (
    "they are empty now, but they are there, in another shape than their parameters. A parameter "
    "without a gradient has None in its `.grad`"
)
A_VIEW = (
    "a tensor's memory lives as long as anything looks into it, whatever names are deleted. What "
    "does the returned tensor look into? (contiguous() copies nothing that is contiguous already)"
)

EXERCISE = RankExercise(
    "6.8",
    "reduce_and_free",
    cases=[
        At(World(4), ((3, 4), (5,), (2, 1)), ", 19 numbers"),
        At(World(3), ((2, 3), (4,), (8,)), ", 18 numbers"),
        At(World(3), ((2,),), ", 2 numbers"),
    ],
    work=try_reduce,
    facts=[
        never("changed", "the parameters themselves have changed"),
        Equals("part", right, mistakes, "what is returned"),
        need_freed,
    ],
    told=lambda trial: f"each has its part of the mean, {trial[0].part.nbytes} bytes, and no "
    "gradient is left",
    errors={
        "'NoneType' object has no attribute": "a gradient that has been freed is read: first copy "
        "all of them into the flat tensor",
        "sizes().vec()": "the chunks and the tensor that receives have to be equally long",
    },
    lost="every rank has to make the same calls, in the same order",
    hints=(
        "Which tensors can still be reached when the function has returned? How large is the "
        "memory behind each of them?",
        "zero_() writes zeros into memory, and frees none. And a chunk is a view: as long as "
        "it lives, the whole flat tensor lives.",
        "Receive into a tensor of its own, torch.empty_like(chunks[rank]), and set each p.grad "
        "to None.",
    ),
)  # fmt: skip
