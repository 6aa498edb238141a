"""Heads for places: parts of one dimension given, parts of another one got."""

import torch
import torch.distributed as dist

from ..kit import GROUP, At, Equals, RankExercise, Sends, World, answering, never
from ..kit.requests import AllRequests
from ..kit.trials import numbers, turned


def x_of(place, shape, dtype=torch.float64) -> torch.Tensor:
    return turned(numbers(place, shape, dtype))


def change(answer, group, case):
    shape, split, join, dtype = case.args
    x = x_of(dist.get_rank(group), shape, dtype)
    before = x.clone()
    with answering(), AllRequests() as requests:
        y = answer(x, split, join, group)
        requests.need_waited()
    return {"y": y, "changed": not x.equal(before)}


def joined(trial, place, along, reverse=False):
    shape, split, _, dtype = trial.case.args
    parts = [x_of(k, shape, dtype).chunk(trial.n, split)[place] for k in range(trial.n)]
    return torch.cat(parts[::-1] if reverse else parts, along)


def truth(trial, place):
    return joined(trial, place, trial.case.args[2])


def mistakes(trial, place):
    shape, split, join, dtype = trial.case.args
    x, n = x_of(place, shape, dtype), trial.n
    return {
        "what comes is joined along the dimension that was split, and not along `join`":
            joined(trial, place, split),
        "what comes is in the order of the ranks: that of the group's first rank first":
            joined(trial, place, join, reverse=True),
        "this is what the rank had: nothing has travelled": x,
        "these are the rank's own parts, joined in another way: part r goes to rank r":
            torch.cat(x.chunk(n, split), join),
        "this is one part of all, on every rank: each rank gets another one":
            torch.cat([x_of(k, shape).chunk(n, split)[0] for k in range(n)], join),
        "x is split along `join` here, and joined along `split`":
            torch.cat([x_of(k, shape).chunk(n, join)[place] for k in range(n)], split)
            if shape[join] % n == 0 else x,
        "these are all parts of all ranks: part r is for rank r alone":
            torch.cat([x_of(k, shape) for k in range(n)], join),
    }  # fmt: skip


def in_words(shape, split, join) -> str:
    return f", {list(shape)}, split {split}, join {join}"


def most(trial, place):
    shape = trial.case.args[0]
    return 8 * torch.Size(shape).numel() * (trial.n - 1) / trial.n + 400 * trial.n


EXERCISE = RankExercise(
    "9.27",
    "swap",
    lab="long_contexts",
    cases=[
        At(world, (shape, split, join, torch.float64), in_words(shape, split, join))
        for world, shape, split, join in [
            (World(2), (1, 4, 6, 2), 1, 2),
            (World(2), (1, 4, 3, 2), 1, 2),
            (World(2), (1, 2, 6, 2), 2, 1),
            (World(3), (2, 6, 2, 5), 1, 2),
            (World(4), (2, 1, 8, 3), 2, 1),
            (World(3), (3, 4), 0, 1),
            (World(1), (2, 3, 2), 1, 2),
            (GROUP, (2, 12, 4, 2), 1, 2),
            (World(4), (2, 8, 500, 10), 1, 2),
        ]
    ] + [At(World(2), ((2, 4), 1, 0, torch.float32), in_words((2, 4), 1, 0) + ", float32")],
    work=change,
    facts=[
        Equals("y", truth, mistakes, "y"),
        never("changed", "x has changed", "the caller still needs x as it was"),
        Sends(most, "an all-to-all sends", {
            "all_gather": "an all-gather gives all parts to all ranks: a rank needs one of each",
            "": "each rank sends one part to each other rank, and no more",
        }),
    ],
    told="parts of one dimension given, parts of the other one got",
    errors={
        "must be contiguous": "a part of a tensor need not lie in one piece: part.contiguous()",
        "has to be contiguous": "a part of a tensor need not lie in one piece: part.contiguous()",
        "split_sizes": "all parts are equally long here: no sizes are needed",
        "does not support alltoall": "this version's Gloo has no all_to_all of lists: "
        "dist.all_to_all_single takes one tensor with all parts stacked",
    },
    lost="all ranks of the group call the all-to-all",
    hints=(
        "x.chunk(n, split) gives the parts. torch.stack makes one tensor of them, with the part "
        "for rank r at place r: that is what all_to_all_single takes.",
        "What comes has the same shape as the stack: place r holds the part of rank r. "
        "torch.cat(came.unbind(0), join).",
    ),
)  # fmt: skip
