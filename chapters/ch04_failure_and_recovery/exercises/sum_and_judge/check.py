"""One all-reduce, and a judgement of the sum that is the same on all ranks."""

import torch

from coursekit.kit import GROUP, Equals, RankExercise, Sends, World, complains
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import (
    BORN_LATE,
    CALM,
    HIGH,
    HIGH_AT_HALF_TIME,
    HIGH_LATER,
    ONE_SPIKE,
    TEN,
    TWO_LEVELS,
    judge,
    make_case,
)
from .truth import (
    ONLY_SOME,
    SEPARATE,
    TOO_EARLY,
    expect_bytes,
    find_more_calls,
    is_norm_rounded,
    is_sane,
    mistakes_of_judgement,
    mistakes_of_norms,
    mistakes_of_sum,
    norms_after,
    summed,
)


def found_in(case):
    return ("flat",) if case.args[0] == "large numbers" else ("flat", "sane", "norms")


EXERCISE = RankExercise(
    "sum_and_judge",
    lab="loss_spikes",
    cases=[
        make_case(World(2), "calm", CALM, "a usual step"),
        make_case(World(3), "calm", CALM, "a usual step"),
        make_case(World(2), "spike", CALM, "a spike"),
        make_case(World(3), "NaN", CALM, "a NaN on rank 1"),
        make_case(World(3), "apart", CALM, "large gradients that cancel out"),
        make_case(World(3), "together", CALM, "three gradients that add up to a spike"),
        make_case(World(2), "spike", BORN_LATE, "a spike, after 9 norms"),
        make_case(World(2), "spike", TEN, "a spike, after 10 norms"),
        make_case(World(2), "NaN", [], "a NaN in the first step"),
        make_case(World(2), "infinite", BORN_LATE, "an infinite number, after 9 norms"),
        make_case(World(2), "both infinities", [], "both infinities in the first step"),
        make_case(World(2), "spike", ONE_SPIKE, "a spike, after an earlier one"),
        make_case(World(2), "ten", HIGH_LATER, "a norm of 10, after 30 of 1 and 29 of 9"),
        make_case(World(2), "ten", HIGH_AT_HALF_TIME, "a norm of 10, after high ones between ones"),
        make_case(World(3), "limit", [1.25] * 10, "exactly 4 times the median"),
        make_case(World(2), "six", TWO_LEVELS, "norms of 1 and 3 in turn"),
        make_case(World(2), "ten", TWO_LEVELS, "a norm of 10, after 1 and 3 in turn"),
        make_case(World(2), "limit", [2.0] * 12, "times = 2", times=2.0),
        make_case(World(2), "overflow", [], "a sum that overflows float32", dtype=torch.float32),
        make_case(World(2), "half", HIGH, "a float16 sum of norm 83,173", dtype=torch.float16),
        make_case(World(2), "odd", CALM, "a bfloat16 sum of norm √10", dtype=torch.bfloat16),
        make_case(World(2), "large numbers", [], "1e30 in float32", dtype=torch.float32),
        make_case(World(1), "spike", CALM, "a spike"),
        make_case(GROUP, "calm", CALM, "a usual step in a group"),
        make_case(World(3), "large", [], "2 MB of gradients"),
    ],
    work=judge,
    facts=[
        Equals("flat", summed, mistakes_of_sum, "flat"),
        Equals("sane", is_sane, mistakes_of_judgement, "what is returned"),
        Equals("norms", norms_after, mistakes_of_norms, "norms", is_norm_rounded, close_in_float32),
        complains(find_more_calls),
        Sends(expect_bytes, "one all-reduce of flat sends", {"": SEPARATE}),
    ],
    found=found_in,
    right=lambda trial: (
        f"{'sane' if is_sane(trial, 0) else 'not sane'}, on all ranks"
        if "sane" in found_in(trial.case)
        else "no infinite norm"
    ),
    errors={
        "no median for empty data": TOO_EARLY,
        "mean requires at least one data point": TOO_EARLY,
        "must be real number, not Tensor": "norms has floats: norm.item() makes one of a tensor",
    },
    on_hang=ONLY_SOME,
    hints=(
        "After the all-reduce, all ranks have the same numbers. What can they judge without asking "
        "each other?",
        "norm = flat.norm(dtype=torch.float64).item() after the all-reduce. Compare it with "
        "`times * median(norms)` if there are AT_LEAST norms. What does each comparison give if "
        "the norm is NaN?",
        "is_sane = norm <= limit and norm < float('inf'), with an infinite limit while there are "
        "too few norms. NaN makes both comparisons false.",
    ),
)
