"""One all-reduce for the gradients and for the question whether any rank has been told to stop."""

import torch

from coursekit.kit import GROUP, Equals, RankExercise, World, complains, never

from .cases import make_case, reduce
from .truth import (
    NOT_FINITE,
    ONLY_SOME,
    any_told,
    find_other_calls,
    find_other_sizes,
    mistakes_of_notice,
    mistakes_of_sum,
    total,
    why_flat,
)

EXERCISE = RankExercise(
    "reduce_with_notice",
    lab="told_to_stop",
    cases=[
        make_case(World(1), {0}, "it is told"),
        make_case(World(2), {1}, "rank 1 is told"),
        make_case(World(3), set(), "no rank is told"),
        make_case(World(3), {0, 1, 2}, "all are told"),
        make_case(World(4), {0, 2}, "ranks 0 and 2 are told"),
        make_case(World(2), {0}, "rank 0 is told, in bfloat16", dtype=torch.bfloat16),
        make_case(GROUP, {1}, "the second rank of the group is told"),
    ],
    work=reduce,
    facts=[
        complains(find_other_calls),
        never("lost", "{} numbers of flat are inf or nan", NOT_FINITE),
        Equals("flat", total, mistakes_of_sum, "flat", otherwise=why_flat),
        Equals("told", any_told, mistakes_of_notice, "what is returned"),
        complains(find_other_sizes),
    ],
    right=lambda trial: f"the sum, and {trial[0].told} on all ranks, with one all-reduce",
    errors={
        "Sizes of tensors": "cat joins tensors in one dimension: the notice is a tensor of one "
        "element, flat.new_tensor([…])",
        "zero-dimensional": "cat joins tensors in one dimension: flat.new_tensor([float(told)]) "
        "has one, and a number in brackets",
        "expected Tensor as element": "cat joins tensors: flat.new_tensor([float(told)]) makes one "
        "of the notice, in the dtype of flat",
        "Cannot convert": "all tensors of one all-reduce have the same dtype, that of flat",
    },
    on_hang=ONLY_SOME,
    hints=(
        "An all-reduce sums any numbers. Which number could a rank send along with its gradients, "
        "so that the sum says whether any rank has been told?",
        "torch.cat([flat, flat.new_tensor([float(told)])]) has one element more than flat: 1 on a "
        "rank that has been told, and 0 on the others.",
        "After the all-reduce, copy all elements but the last into flat, with flat.copy_(…). The "
        "last one is the number of ranks that have been told.",
    ),
)
