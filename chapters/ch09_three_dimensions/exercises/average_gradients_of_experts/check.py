"""The mean of gradients, where experts are on some ranks and other parameters on every rank."""

from coursekit.kit import Equals, RankCase, RankExercise, World, complains

from ..shared.meshes import describe_mesh
from .cases import ORDER, TURNED, average
from .truth import describe_wrong_gradients, faults, mistakes, truth

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "average_gradients",
    cases=[
        RankCase(World(n), (sizes, names), f", {describe_mesh(sizes)}")
        for n, sizes, names in [
            (6, {"edp": 3, "ep": 2}, ORDER),
            (4, {"edp": 2, "ep": 2}, TURNED),
            (2, {"edp": 1, "ep": 2}, ORDER),
            (2, {"edp": 2, "ep": 1}, TURNED[1:]),
            (6, {"ep": 3, "edp": 2}, ORDER[:4]),
        ]
    ],
    work=average,
    facts=[
        complains(faults),
        Equals("gradients", truth, mistakes, "the gradients", tells=describe_wrong_gradients),
    ],
    right="experts and all else have the mean over all samples",
    errors={
        "KeyError": "the groups are mesh[\"edp\"], mesh[\"ep\"] and mesh[\"edp\", \"ep\"]",
        "has no attribute 'is_of_expert'": "only the experts' parameters have this attribute: ask "
        "for it with a default, or with hasattr",
    },
    on_hang="all ranks of a group call the all-reduce, in the same order of the parameters",
    hints=(
        "On one expert's rank: which ranks' samples are in its gradient after the backward? Which "
        "ranks' samples are missing?",
        "The loss of one process is the mean over all samples. So each sum is divided by the "
        "number of all ranks that have samples: mesh.sizes[\"edp\"] * mesh.sizes[\"ep\"].",
    ),
)  # fmt: skip
