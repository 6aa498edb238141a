"""A step of LARS on shards, in which a layer's norms are on several ranks."""

from coursekit.kit import Equals, RankExercise, never

from .cases import CASES, try_step
from .truth import EMPTY, NOT_FINITE, mistakes, one_call, right

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "take_lars_step",
    cases=CASES,
    work=try_step,
    facts=[
        never("changed", "the gradients have changed", "only the weights are to change: multiply "
              "a gradient into a new tensor, or into the step"),
        never("nan", "{} weights are not finite", NOT_FINITE),
        Equals("weights", right, mistakes, "the weight"),
        one_call,
    ],
    right="every layer has one ratio on all ranks",
    errors={
        "expected a non-empty": EMPTY,
        "non-zero size": EMPTY,
        "stack expects": EMPTY,
        "Expected parameter `tensor`": "all_reduce needs a tensor: torch.stack joins numbers of "
        "tensors into one",
    },
    on_hang=EMPTY,
    hints=(
        "Which numbers does the norm of a layer depend on, and on which ranks are they?",
        "Squares add up over ranks, and norms do not. Each rank has two sums of squares per layer.",
        "torch.stack makes one tensor of all these sums, dist.all_reduce(…, group=group) adds up "
        "the ranks', and sqrt() of the result are the norms.",
    ),
)  # fmt: skip
