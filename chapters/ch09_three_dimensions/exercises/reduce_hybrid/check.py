"""A unit's gradient, reduced inside a group and averaged across groups."""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from ..shared.meshes import describe_mesh
from .cases import reduce
from .truth import mean, mistakes, sends_little

EXERCISE = RankExercise(
    "reduce_hybrid",
    lab="sharded_dimensions",
    cases=[
        RankCase(
            World(n), (sizes, backwards), f", {describe_mesh(sizes)}" + ", twice" * (backwards - 1)
        )
        for n, sizes, backwards in [
            (2, {"replicate": 1, "shard": 2}, 1),
            (2, {"replicate": 2, "shard": 1}, 1),
            (4, {"replicate": 2, "shard": 2}, 1),
            (6, {"replicate": 3, "shard": 2}, 1),
            (4, {"replicate": 2, "shard": 2}, 2),
            (6, {"replicate": 3, "shard": 1, "tp": 2}, 1),
        ]
    ],
    work=reduce,
    facts=[
        never(
            "unset",
            lambda _: "unit.shard.grad is None",
            "nobody has set it: it becomes this rank's chunk of the mean",
        ),
        Equals("grad", mean, mistakes, "unit.shard.grad"),
        never(
            "left",
            lambda _: "a parameter of the unit still has a gradient",
            "what is not this rank's part is in the way: it is to be freed",
        ),
        never(
            "replaced",
            lambda _: "unit.shard is another parameter than before",
            "the optimizer steps with the parameter that it was given: only its gradient is new",
        ),
        never(
            "weights",
            lambda _: "the parameters themselves have changed",
            "only gradients are to change",
        ),
        sends_little,
    ],
    right="each rank has its chunk of the mean over all ranks",
    on_hang="all ranks of a group of replicas make the same call, with as many numbers",
    needs=("reduce_gradients",),
    errors={
        "'NoneType' object": "before the first reduce there is no gradient: unit.shard.grad is None"
    },
    hints=(
        "Two steps. Which function of labs/zero.py gives this rank its chunk of the mean over the "
        "unit's own group?",
        "Other groups have the same chunk, for other samples: an all-reduce of unit.shard.grad "
        "over `replicas`, and a division.",
        "If there is a gradient from an earlier backward, put it aside first, and add it at the "
        "end: it is a mean over all ranks already.",
    ),
)
