"""The mean of gradients over the copies of a model, on a mesh, in one all-reduce."""

import torch

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from ..shared.meshes import describe_mesh
from .cases import ALL, FROZEN, average
from .truth import NOTHING, check_single_message, mean, mistakes

EXERCISE = RankExercise(
    "average_over_copies",
    lab="three_dimensions",
    cases=[
        RankCase(World(n), (sizes, names, frozen, dtype), f", {describe_mesh(sizes)}{what}")
        for n, sizes, names, frozen, dtype, what in [
            (4, {"dp": 2, "pp": 1, "tp": 2}, ALL, FROZEN, torch.float64, ""),
            (4, {"dp": 2, "pp": 2, "tp": 1}, ALL[::-1], FROZEN, torch.float64, ""),
            (3, {"dp": 3, "pp": 1, "tp": 1}, ALL[3:], FROZEN, torch.float32, ", in float32"),
            (2, {"dp": 1, "pp": 1, "tp": 2}, ALL[:3], (), torch.float64, ""),
            (2, {"dp": 2, "pp": 1, "tp": 1}, ALL, ALL, torch.float64, ", no gradient at all"),
        ]
    ],
    work=average,
    facts=[
        Equals("gradients", mean, mistakes, "the gradients"),
        never("frozen", lambda _: "a gradient that was None is a tensor now",
              "a frozen parameter has no gradient, in any copy, and gets none"),
        never("weights", lambda _: "the parameters themselves have changed",
              "only p.grad is to change: the optimizer takes the step"),
        check_single_message,
    ],
    right="each rank has the mean over the copies of its part",
    errors={
        "'NoneType'": "a frozen parameter has no gradient: its `.grad` is None. Leave it out",
        "view size is not compatible": "a gradient's numbers need not lie one after another in "
        "memory: reshape copies where view fails",
        "list index out of range": NOTHING,
        "expected a non-empty": NOTHING,
        "zero-dimensional tensor": "a gradient may be a single number, without a dimension: "
        "reshape(-1) makes a row of it",
    },
    on_hang="all ranks of a dp group call the all-reduce, with as many numbers",
    hints=(
        "Which ranks have a gradient of the same parameters? Their group is mesh[\"dp\"].",
        "torch.cat of all gradients, reshaped to rows; one all-reduce; divide; split it again into "
        "pieces of the old sizes.",
    ),
)  # fmt: skip
