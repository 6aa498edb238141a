"""Gradient accumulation with FSDP2: gradients are reduced once per step."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World, never
from pedagogy_lib.basics.closeness import close

from ..prepare.cases import BLOCKS
from .cases import try_accumulation
from .truth import mean_gradient, why_reduced, wrong_gradients

EXERCISE = RankExercise(
    "accumulate_sharded",
    cases=[
        RankCase(World(2), (3,), ", 3 micro-batches each"),
        RankCase(World(3), (2,), ", 2 micro-batches each"),
        RankCase(World(2), (1,), ", 1 micro-batch each"),
    ],
    work=try_accumulation,
    facts=[
        never("changed", "the model's weights have changed", "the step comes later: no optimizer"),
        never("taken", "its list `micro_batches` is another one now", "it belongs to the caller"),
        never("left", "at the end, {0[0]} still holds", "a setting stays until it is changed. "
              "Units that are still gathered have no shard of a gradient, and the next step finds "
              "all that was set: set it to True before the last backward"),
        never("evaluates", "model.training is False now", "the mode is the caller's"),
        never("whole", "after the last micro-batch, {} parameters have no shard of a gradient",
              "their gradients stay whole on each rank, and are not averaged: the last backward "
              "has to reduce"),
        Equals("gradient", mean_gradient, wrong_gradients, "the whole gradient", same=close),
        never("passes", "forwards and backwards are: {}", "one micro-batch at a time: its forward, "
              "its backward, and then the next. Otherwise the activations of several are in memory "
              "at once, which accumulation is to avoid"),
        never("kept", "{} backwards keep their graph", "retain_graph=True keeps a micro-batch's "
              "activations for another backward, and none follows: leave it out"),
        Holds("reduced", lambda count: count == BLOCKS + 1,
              f"{{}} reduce-scatters; expected one for each of the {BLOCKS + 1} units",
              why_reduced),
        Holds("later", lambda count: count == BLOCKS + 1,
              f"a plain backward afterwards makes {{}} reduce-scatters, expected {BLOCKS + 1}",
              "the setting stays until it is changed: a program that does not accumulate later "
              "would never reduce. The last micro-batch needs it to be True anyway"),
        never("returned", "something is returned", "gradients are in `.grad`, and nothing is asked "
              "for besides"),
    ],
    right="each unit's gradient is reduced once, and is the mean over all micro-batches",
    errors={
        "no attribute 'no_sync'": "no_sync belongs to DDP. In FSDP2 the model has a method: "
        "set_requires_gradient_sync",
        "got mixed torch.Tensor and DTensor": "a parameter is a shard where a whole one is needed: "
        "was forward() called in place of the model? Then no hook gathers its units",
    },
    on_hang="every rank has to make the same calls: each has equally many micro-batches",
    warm=True,
    hints=(
        "FSDP2 reduces in each backward, unless it is told not to. Which method of the model says "
        "so, and for which micro-batches?",
        "model.set_requires_gradient_sync(…) stands before the forward of a micro-batch. It is "
        "True for the last one alone.",
        "FSDP2 gives the mean over the ranks. The mean over micro-batches is yours: divide each "
        "loss by their number.",
    ),
)  # fmt: skip
