"""Clipping by the norm of gradients whose parts are on different ranks."""

import math

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import OVERFLOW, clip
from .truth import (
    LOST,
    NOT_FINITE,
    OVERFLOWS,
    one_number,
    right_gradients,
    right_norm,
    wrong_gradients,
    wrong_norms,
)

EXERCISE = RankExercise(
    "clip_shards",
    lab="composing",
    cases=[
        RankCase(World(2), ("", 1.0), ", shards of different sizes"),
        RankCase(World(3), ("", 5.0), ", shards of different sizes"),
        RankCase(World(2), ("", 1000.0), ", the norm is below max_norm"),
        RankCase(
            World(3), ("rank 0 has only a frozen one", 2.0), ", rank 0 has only a frozen parameter"
        ),
        RankCase(World(2), ("rank 0 has none", 2.0), ", rank 0 has no shard"),
        RankCase(World(2), ("all zeros", 1.0), ", all gradients are zeros"),
        RankCase(World(2), ("in float16", OVERFLOW / 2 * 14**0.5), ", gradients in float16"),
        RankCase(World(1), ("", 3.0)),
        RankCase(GROUP, ("", 1.0)),
    ],
    work=clip,
    facts=[
        Holds(
            "returned",
            bool,
            "no norm is returned",
            "return the norm before clipping: one number, on every rank",
        ),
        never(
            "changed",
            "the parameters themselves have changed",
            "only the gradients are scaled: p.grad, and not p",
        ),
        never("lost", "{} gradients are gone", "scale the gradients, and leave them in p.grad"),
        never(
            "given",
            "{} frozen parameters have a gradient now",
            "a frozen parameter has no gradient, and needs none: leave it out",
        ),
        Holds(
            "norm",
            math.isfinite,
            "the norm is {}",
            lambda trial, place: OVERFLOWS if trial.case.args[0] == "in float16" else "",
        ),
        Equals("norm", right_norm, wrong_norms, "the norm", same=close_in_float32),
        never(
            "bad",
            "the norm is right, and {} numbers of the gradients are not finite",
            lambda trial, place: NOT_FINITE if trial.case.args[0] == "all zeros" else OVERFLOWS,
        ),
        Equals(
            "gradients", right_gradients, wrong_gradients, "the gradient", same=close_in_float32
        ),
        one_number,
    ],
    right=lambda trial: f"norm {trial[0].norm:.4g}, at most {trial.case.args[1]:g}",
    errors={
        "'NoneType' object has no attribute": "a frozen parameter has None in `.grad`: leave it "
        "out",
        "unsupported operand type(s) for *=: 'NoneType'": "a frozen parameter has None in `.grad`: "
        "leave it out, when you scale as well",
        "expected a non-empty": "a rank may have no gradient at all. Its sum of squares is 0, and "
        "it takes part in the all-reduce",
        "division by zero": NOT_FINITE,
        "float() argument must be": "return the norm alone: one number",
        "'int' object has no attribute": "a rank may have no gradient at all. Then a sum of "
        "nothing is the number 0, and all_reduce needs a tensor",
        "'float' object has no attribute": "all_reduce needs a tensor, on a rank without gradients "
        "too",
        "Invalid function argument. Expected parameter `tensor`": "all_reduce needs a tensor, on a "
        "rank without gradients too",
    },
    on_hang=LOST,
    hints=(
        "Pythagoras: the square of the whole norm is the sum of the squares of all numbers, on "
        "whatever rank they lie.",
        "Each rank adds up the squares of its own gradients in one number, in float64. That "
        "number is summed over the ranks.",
        "The root of the sum is the norm. If it is above max_norm, multiply each p.grad by "
        "max_norm / norm, in place. A frozen p has None in p.grad.",
    ),
)
