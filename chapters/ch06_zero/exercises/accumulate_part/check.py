"""Gradient accumulation in parts: a program of stage 2 with a bug."""

from coursekit.kit import RankCase, RankExercise, World, never

from .cases import try_part
from .truth import Part, mean_part, mistakes

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "accumulate_part",
    cases=[
        RankCase(World(2), (3,), ", 3 micro-batches each"),
        RankCase(World(3), (4,), ", 4 micro-batches each"),
        RankCase(World(4), (1,), ", 1 micro-batch each"),
    ],
    work=try_part,
    facts=[
        never("changed", "the model's weights have changed"),
        Part("part", mean_part, mistakes, "the part"),
        never("left", lambda left: f"`.grad` of {len(left)} parameters has {sum(left)} bytes",
              "the part is right, but behind it the whole gradient stays, on every rank: that is "
              "not stage 2. torch.autograd.grad leaves nothing in `.grad`"),
    ],
    right=lambda trial: f"each has its part of the mean over all {trial.n * trial.case.args[0]}",
    errors={
        "sizes().vec()": "the chunks have to be as long as the tensor that receives: pad the flat "
        "gradient until n divides it",
        "'NoneType' object has no attribute": "torch.autograd.grad returns the gradients, and "
        "leaves nothing in `.grad`; backward() does the opposite",
    },
    on_hang="every rank has to make the same calls, for each of its micro-batches",
    hints=(
        "The result is a fixed number of times the right one. Which, with 2 ranks, with 3?",
        "Two sums need two divisions: over micro-batches, and over ranks. Count how often each "
        "gradient is divided by n.",
        "What reduce_scatter has summed up is divided by n at the end. The loss needs the "
        "number of micro-batches alone.",
    ),
)  # fmt: skip
