"""The norm of a gradient of which each rank has a part. The truth is torch's norm of the whole."""

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, World, never
from coursekit.kit.results import VIEW
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import MODELS, length, measure_norm
from .truth import NO_GRADIENT, PLAIN, needs_few_bytes, why_something_is_missing, wrong_lengths

EXERCISE = RankExercise(
    "gradient_norm",
    lab="tensor_parallel",
    cases=[
        RankCase(World(n), (model,), f", {model}") for model, n in zip(MODELS, (3, 2, 3, 1, 3))
    ] + [RankCase(GROUP, ("cut and whole parameters",))],
    work=measure_norm,
    facts=[
        never("changed", lambda names: f"the gradient of {names[0]} has changed",
              "it is only to be measured: the optimizer steps with it afterwards. What travels in "
              "place, or is squared with an underscore, is to be a tensor of its own"),
        Equals("length", length, wrong_lengths, "the length", same=close_in_float32),
        needs_few_bytes,
    ],
    right=lambda trial: f"the length is {trial[0].length:.6g} on every rank, as in one process",
    explain=why_something_is_missing,
    errors={
        "'NoneType'": NO_GRADIENT,
        "view size is not compatible": VIEW,
        "has no attribute 'cut_dim'": "a parameter that is not cut has no such attribute: hasattr",
        **dict.fromkeys(PLAIN, "summed and sqrt() need a tensor, and this is a plain number: "
                               "torch.as_tensor makes one of it"),
    },
    on_hang="every rank makes the same calls. Here one rank has no gradient where the others have "
    "one: with a call for each parameter they lose each other. Add up first, then a single call",
    hints=(
        "The square of a length is a sum of squares. Which squares has this rank alone, and "
        "which has every rank?",
        "hasattr(p, 'cut_dim') tells them apart. Add up sum_of_squares(p.grad) of both kinds, "
        "without those whose gradient is None.",
        "Over the ranks only the sum of the cut ones is added up: summed(x, group), once, and "
        "x has to be a tensor even if there are none. The root comes last.",
    ),
)  # fmt: skip
