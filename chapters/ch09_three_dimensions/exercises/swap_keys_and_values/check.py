"""An exchange of heads for places: ranks give parts of one dimension for parts of another."""

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, never

from .cases import change, describe_swap
from .truth import mistakes, most, truth

EXERCISE = RankExercise(
    "swap",
    lab="long_contexts",
    cases=[
        RankCase(world, (shape, split, join, torch.float64), describe_swap(shape, split, join))
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
    ]
    + [
        RankCase(World(2), ((2, 4), 1, 0, torch.float32), describe_swap((2, 4), 1, 0) + ", float32")
    ],
    work=change,
    facts=[
        Equals("y", truth, mistakes, "y"),
        never("changed", "x has changed", "the caller still needs x as it was"),
        Sends(
            most,
            "an all-to-all sends",
            {
                "all_gather": "an all-gather gives all parts to all ranks: a rank needs one of "
                "each",
                "": "each rank sends one part to each other rank, and no more",
            },
        ),
    ],
    right="parts of one dimension given, parts of the other one got",
    errors={
        "must be contiguous": "a part of a tensor need not lie in one piece: part.contiguous()",
        "has to be contiguous": "a part of a tensor need not lie in one piece: part.contiguous()",
        "split_sizes": "all parts are equally long here: no sizes are needed",
        "does not support alltoall": "this version's Gloo has no all_to_all of lists: "
        "dist.all_to_all_single takes one tensor with all parts stacked",
    },
    on_hang="all ranks of the group call the all-to-all",
    hints=(
        "x.chunk(n, split) gives the parts. torch.stack makes one tensor of them, with the part "
        "for rank r at place r: that is what all_to_all_single takes.",
        "What comes has the same shape as the stack: place r holds the part of rank r. "
        "torch.cat(came.unbind(0), join).",
    ),
)
