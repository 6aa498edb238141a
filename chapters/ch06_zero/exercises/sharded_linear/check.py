"""Layers with sharded weights: a program of stage 3 with a bug.

The truth is one process that has all weights, with each rank's own input.
"""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from .cases import ONE, THREE, alone, gradients, try_layers
from .truth import mistakes

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "ShardedLinear",
    cases=[
        RankCase(World(n), (network,), f", {what}")
        for n in (2, 3)
        for network, what in ((ONE, "one layer"), (THREE, "three layers"))
    ],
    work=try_layers,
    facts=[
        Equals("outputs", lambda trial, place: alone(trial)[place][0], called="the output",
               otherwise="the forward was right as it was"),
        Equals("gradients", gradients, mistakes, "the gradient"),
        never("kept", "a layer keeps {} bytes more than x and its shard",
              "all gradients are right, but now each layer keeps its weight until its backward: "
              "stage 3 splits the weights so that nobody has to. What can be had again need not be "
              "kept"),
    ],
    right="gradients of one process; the graph keeps x and the shard alone",
    errors={
        "modified by an inplace operation": "save_for_backward() has kept the buffer itself, not "
        "its numbers, and watches over it: the forward of another layer has written into it",
        "invalid gradient": "a gradient has the shape of its argument: x's is as x, the shard's is "
        "a part as long as the shard",
        "incorrect number of gradients": "backward returns one for each argument of forward, None "
        "for buffer",
        "invalid tensor size": "the shard is flat: it goes into flat parts of the buffer, "
        "buffer.view(-1).chunk(n)",
        "not have been used in the graph": "backward returns None for x or shard: they have "
        "gradients",
        "Backward' object has no attribute": "ctx has what forward has put there, and nothing else",
    },
    on_hang="every rank has to make the same calls, in the same order, in the backward as well",
    hints=(
        "With one layer all is right. With three in a row, what is in the buffer when the "
        "first backward begins? And the second?",
        "The forward of the last layer has filled the buffer, for all. Each backward needs the "
        "weight of its own layer. To keep a copy for each would cost what stage 3 saves.",
        "In backward, before `gradient @ ctx.buffer`, gather the weight again, as forward does.",
    ),
)  # fmt: skip
