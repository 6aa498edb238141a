"""A cross-entropy whose logits are split over ranks. The truth is F.cross_entropy of all logits."""

import math

import torch

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, World, never
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.observed_calls import PASSED_BY
from coursekit.kit.results import VIEW

from .cases import MANY, SCORES, TARGETS, lose
from .truth import (
    CHANGED,
    ELSEWHERE,
    THROUGH_HIGHEST,
    bytes_of_three,
    true_gradient,
    true_loss,
    why_infinite,
    why_so_many,
    wrong_gradients,
    wrong_losses,
)

EXERCISE = RankExercise(
    "split_cross_entropy",
    lab="tensor_parallel",
    needs=("all_reduce",),
    cases=[
        RankCase(World(3), (SCORES, TARGETS), ", two samples of five tokens"),
        RankCase(World(2), (1000 * SCORES, TARGETS), ", large logits"),
        RankCase(World(3), (SCORES - 1000, TARGETS), ", logits near -1,000"),
        RankCase(
            World(3), (SCORES[0, :3], torch.tensor([9, 8, 9])), ", targets of the last rank alone"
        ),
        RankCase(World(1), (SCORES[1:, 2:3], TARGETS[1:, 2:3]), ", a single target"),
        RankCase(GROUP, (SCORES, TARGETS)),
        RankCase(World(3), MANY, ", 120 tokens"),
    ],
    work=lose,
    facts=[
        Holds("loss", math.isfinite, "the loss is {}", why_infinite),
        Equals("loss", true_loss, wrong_losses),
        never("logits", "the logits have changed", CHANGED),
        never("targets", "the targets have changed", CHANGED),
        Holds(
            "gradient",
            lambda x: x is None or not x.isnan().any(),
            "the loss is right; the gradient of logits is nan",
            THROUGH_HIGHEST,
        ),  # amax's backward looks for its result and finds another rank's
        Equals("gradient", true_gradient, wrong_gradients, "the gradient of logits"),
        never(
            "backward",
            "it sends {} bytes in the backward",
            "the numbers are right. But all ranks compute the same from the sums on, so each has "
            "their gradient already: AllReduce's backward sends nothing",
        ),
        never("passed", lambda found: f"torch warns of {found[0]} in the backward", PASSED_BY),
        SendLimit(bytes_of_three, "the sums of three numbers for each target send", why_so_many),
    ],
    right=lambda trial: f"the loss is {trial[0].loss:,.4g}, and the gradients are right",
    errors={
        "view size is not compatible": VIEW,
        "out of bounds": ELSEWHERE,
        "out of range": ELSEWHERE,
        "Index tensor must have the same number of dimensions": "gather needs an index with as "
        "many dimensions as logits: place.unsqueeze(-1), and squeeze(-1) of what it gives",
        "invalid tensor size": "this call takes equal parts alone, and the tokens are not shared "
        "out evenly. But the logits of all tokens need not travel: three numbers for each target "
        "do",
        "to be contiguous": "what travels has to lie in one piece: contiguous()",
        "does not require grad": "the loss has no way back to the logits: see what was detached",
        "modified by an inplace operation": "autograd needs a tensor for the backward that has "
        "been changed since: what travels in place has to be a tensor of its own",
    },
    on_hang="every rank makes the same calls with tensors of the same size, also one that has none "
    "of the targets. It adds zeros, and the others wait for it",
    hints=(
        "Three numbers for each target are enough: the highest logit of all tokens, the sum "
        "of exp(logit - highest) over all tokens, and the target's logit, which one rank has.",
        "The highest is no part of the gradient: logits.detach().amax(-1), and then "
        "dist.all_reduce with ReduceOp.MAX. Sums of the other two need a way back: "
        "AllReduce.apply.",
        "Pick the target's logit as VocabularyEmbedding does: place = targets - first, "
        "mine = (place >= 0) & (place < logits.shape[-1]), look up place.where(mine, 0) by "
        "gather, times mine.",
        "The loss of a target is total.log() - picked, both from logits from which the highest "
        "was taken: a new tensor, logits stays as it is. Return the mean.",
    ),
)
