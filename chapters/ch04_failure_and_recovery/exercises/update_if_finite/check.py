"""A guard against NaN that decides alike on all ranks."""

import torch

from coursekit.kit import GROUP, RankCase, RankExercise, World, complains

from .cases import take_steps
from .truth import ONLY_SOME, faults, find_more_calls

FINDS_A_BUG = True


def make_case(world, *steps, dtype=torch.float32) -> RankCase:
    what = f", {', '.join(steps)}" + ", in float64" * (dtype == torch.float64)
    return RankCase(world, (steps, dtype), what)


EXERCISE = RankExercise(
    "update_if_finite",
    cases=[
        make_case(World(2), "calm", "NaN on rank 1", "calm"),
        make_case(World(3), "calm", "infinite on rank 0", "calm"),
        make_case(World(2), "overflow", "calm"),
        make_case(World(2), "NaN on all", "calm"),
        make_case(World(3), "both infinities", "calm"),
        make_case(World(3), "NaN in the last place", "minus infinity on rank 1", "calm"),
        make_case(World(2), "large numbers", "calm"),
        make_case(World(2), "overflow", "calm", dtype=torch.float64),
        make_case(GROUP, "NaN on rank 1", "calm"),
    ],
    work=take_steps,
    found=lambda case: ("weights", "taken", "updates"),
    facts=[complains(faults), complains(find_more_calls)],
    right="the same steps are taken on all ranks",
    errors={"FloatingPointError": "such a step is left out: return False, and raise nothing"},
    on_hang=ONLY_SOME,
    hints=(
        "Write down, for each rank, what `is_finite` is in the step with the NaN, and what `flat` "
        "holds after the all-reduce.",
        "Which of the two tensors is the same on all ranks: the gradients before the all-reduce, "
        "or the sum after it?",
        "Change the order of two lines: sum first, and look at the sum.",
    ),
)
