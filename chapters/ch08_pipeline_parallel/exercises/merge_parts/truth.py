"""The merged parts of an output layer, and the results of known mistakes."""

import math

import torch


def truth(statistics, vectors):
    """Return the three results, one stage after another, as a stream of logits is summed."""
    highest, total, mean = statistics[0, 0], statistics[0, 1], vectors[0]
    picked = statistics[0, 2]
    for (high, part, one), vector in zip(statistics[1:], vectors[1:]):
        new = torch.maximum(highest, high)
        old_scale, scale = (highest - new).exp(), (high - new).exp()
        total, mean = (
            total * old_scale + part * scale,
            (mean * old_scale[:, None] + vector * scale[:, None]),
        )
        highest, picked = new, picked + one
    log_sums = highest + total.log()
    return log_sums - picked, log_sums, mean / total[:, None]


def parts_of(statistics, vectors):
    """Return (highest, sums, picked, the right results)."""
    return (*statistics.unbind(1), truth(statistics, vectors))


def ignore_units(statistics, vectors):
    """Return the results if each stage's sum is taken as it is, in units of its own highest."""
    highest, sums, picked, _ = parts_of(statistics, vectors)
    log_sums = highest.amax(0) + sums.sum(0).log()
    return log_sums - picked.sum(0), log_sums, vectors.sum(0) / sums.sum(0)[:, None]


def add_logarithms(statistics, vectors):
    highest, sums, picked, right = parts_of(statistics, vectors)
    log_sums = (highest + sums.log()).sum(0)
    return log_sums - picked.sum(0), log_sums, right[2]


def leave_out_highest(statistics, vectors):
    """Return the results if the highest logit, which was subtracted, is not added again."""
    highest, _, picked, right = parts_of(statistics, vectors)
    log_sums = right[1] - highest.amax(0)
    return log_sums - picked.sum(0), log_sums, right[2]


def leave_out_highest_once(statistics, vectors):
    highest, _, _, right = parts_of(statistics, vectors)
    return right[0] - highest.amax(0), right[1], right[2]


def take_largest_picked(statistics, vectors):
    _, _, picked, right = parts_of(statistics, vectors)
    return right[1] - picked.amax(0), *right[1:]


def add_vectors(statistics, vectors):
    """Return the right losses, and vectors that were scaled, but not divided by the sum."""
    highest, _, _, right = parts_of(statistics, vectors)
    scales = (highest - highest.amax(0)).exp()
    return *right[:2], (vectors * scales[..., None]).sum(0)


def divide_unscaled(statistics, vectors):
    """Return the right losses, and vectors divided by the sum, each relative to its own highest."""
    highest, _, _, right = parts_of(statistics, vectors)
    totals = (right[1] - highest.amax(0)).exp()
    return *right[:2], vectors.sum(0) / totals[:, None]


def average_stages(statistics, vectors):
    _, sums, _, right = parts_of(statistics, vectors)
    return *right[:2], (vectors / sums[..., None]).mean(0)


def own_softmax(statistics, vectors):
    _, sums, _, right = parts_of(statistics, vectors)
    return *right[:2], (vectors / sums[..., None]).sum(0)


def mean_of_losses(statistics, vectors):
    losses, *others = truth(statistics, vectors)
    return losses.mean(), *others


def without_logarithm(statistics, vectors):
    losses, log_sums, mean = truth(statistics, vectors)
    return losses, log_sums.exp(), mean


def forget_picked(statistics, vectors):
    _, log_sums, mean = truth(statistics, vectors)
    return log_sums, log_sums, mean


def relative_to(choose):
    """Return the merge in which `choose` picks what is subtracted before each exp."""

    def merge(statistics, vectors):
        highest, sums, picked = statistics.unbind(1)
        top = choose(statistics)
        scale = (highest - top).exp()
        total = (sums * scale).sum(0)
        log_sums = top + total.log()
        return log_sums - picked.sum(0), log_sums, (vectors * scale[..., None]).sum(0) / total[
            :, None
        ]  # fmt: skip

    return merge


def logarithm_of_probability(statistics, vectors):
    highest, _, picked, right = parts_of(statistics, vectors)
    top = highest.amax(0)
    return -((picked.sum(0) - top).exp() / (right[1] - top).exp()).log(), *right[1:]


def change_loss(change):
    """Return the right results but for the loss, change(losses, log_sums, picked)."""

    def merge(statistics, vectors):
        losses, log_sums, mean = truth(statistics, vectors)
        return change(losses, log_sums, statistics[:, 2]), log_sums, mean

    return merge


def second_without_highest(statistics, vectors):
    losses, log_sums, mean = truth(statistics, vectors)
    return losses, log_sums - statistics[:, 0].amax(0), mean


def swap_results(statistics, vectors):
    losses, log_sums, mean = truth(statistics, vectors)
    return log_sums, losses, mean


def average_sums(statistics, vectors):
    """Return the results if the sums of exp are averaged over the stages."""
    losses, log_sums, mean = truth(statistics, vectors)
    less = math.log(len(statistics))
    return losses - less, log_sums - less, mean * len(statistics)


def clamp_exp(choose):
    """Return the merge whose differences to choose(highest) are 80 at most."""

    def merge(statistics, vectors):
        highest, sums, picked = statistics.unbind(1)
        top = choose(highest)
        scale = (highest - top).clamp(max=80).exp()
        total = (sums * scale).sum(0)
        log_sums = top + total.log()
        rows = (vectors * scale[..., None]).sum(0) / total[:, None]
        return log_sums - picked.sum(0), log_sums, rows

    return merge


def turn_scale_round(statistics, vectors):
    highest, sums, picked = statistics.unbind(1)
    top = highest.amax(0)
    scale = (top - highest).exp()
    total = (sums * scale).sum(0)
    log_sums = top + total.log()
    return log_sums - picked.sum(0), log_sums, (vectors * scale[..., None]).sum(0) / total[:, None]


def weigh_by_highest(statistics, vectors):
    highest, sums, _, right = parts_of(statistics, vectors)
    return *right[:2], (vectors / sums[..., None] * highest.softmax(0)[..., None]).sum(0)


def two_stages(statistics, vectors):
    """Return the results if the sum of exp is that of the first and the last stage."""
    highest, sums, picked = statistics.unbind(1)
    top = highest.amax(0)
    scale = (highest - top).exp()
    total = (sums * scale)[[0, -1]].sum(0)
    log_sums = top + total.log()
    return log_sums - picked.sum(0), log_sums, (vectors * scale[..., None]).sum(0) / total[:, None]


OVERFLOWS = (
    "what is subtracted is not the highest logit of all stages: where a stage's is far above it, "
    "exp overflows to inf, and inf / inf is no number"
)
CLAMPED = (
    "what exp takes is clamped: this avoids inf, and the sum is wrong. Relative to the highest "
    "logit of all stages, no exp needs a limit"
)
ONE_FOR_ALL = (
    "one number is subtracted for all targets: where a target's logits are far below it, each exp "
    "is rounded to 0. Each target has its own highest logit"
)

MISTAKES = [
    (OVERFLOWS, relative_to(lambda statistics: statistics[0, 0])),
    (OVERFLOWS, relative_to(lambda statistics: statistics[-1, 0])),
    (OVERFLOWS, relative_to(lambda statistics: statistics[:, 0].amin(0))),
    (OVERFLOWS, relative_to(lambda statistics: statistics[:, 0].mean(0))),
    (ONE_FOR_ALL, relative_to(lambda statistics: statistics[:, 0].max())),
    (ONE_FOR_ALL, relative_to(lambda statistics: statistics[:, 0, :1].amax(0))),
    ("the highest is taken of logits and sums together: a sum of exp over many tokens may be far "
     "above every logit", relative_to(lambda statistics: statistics.amax((0, 1)))),
    ("exp of a large number is inf, and inf / inf is no number: take the exp of differences to the "
     "highest logit of all stages alone", relative_to(lambda statistics: 0.0)),
    ("the target's probability is rounded to 0, and the loss is inf: subtract logarithms",
     logarithm_of_probability),
    ("the logarithm of the sum lacks the highest logit, which was subtracted from each logit",
     second_without_highest),
    ("the loss has the wrong sign: it is the logarithm of the sum less the target's logit",
     change_loss(lambda losses, log_sums, picked: -losses)),
    ("the first two results are in each other's place: the losses come first", swap_results),
    ("the target's logit is that of the first stage alone: one of the stages has it, and the "
     "others gave 0, so add them up",
     change_loss(lambda losses, log_sums, picked: log_sums - picked[0])),
    ("the largest and the smallest of what the stages gave are added: with one stage, this counts "
     "the target's logit twice. Add up over the stages",
     change_loss(lambda losses, log_sums, picked: log_sums - picked.amax(0) - picked.amin(0))),
    (CLAMPED, clamp_exp(lambda highest: 0.0)),
    (CLAMPED, clamp_exp(lambda highest: highest[0])),
    ("the sums of exp are averaged over the stages: they have to be added up", average_sums),
    ("the scale has the wrong sign: a stage whose highest logit is lower counts for less, so it is "
     "exp(its highest - the highest of all)", turn_scale_round),
    ("stages are weighed by their highest logits alone: a stage with more tokens has a larger sum "
     "of exp, which counts, too", weigh_by_highest),
    ("only the sums of the first and the last stage are added: there may be more stages, or one",
     two_stages),
    ("each stage's sum is relative to its own highest logit, so these sums are in different units: "
     "bring them to one before they are added", ignore_units),
    ("logarithms are added up. What they are the logarithms of has to be added: the sums of exp",
     add_logarithms),
    ("the highest logit was subtracted from each logit before its exp: it has to be added to the "
     "logarithm of the sum again", leave_out_highest),
    ("the loss lacks the highest logit: the logarithm of the sum and the target's logit have to be "
     "relative to the same number", leave_out_highest_once),
    ("the target's logit is the largest of what the stages gave. Those without the target gave 0, "
     "and a logit may be negative: add them up", take_largest_picked),
    ("the vectors are added up in one unit, but not divided by the sum of exp: a probability is "
     "exp divided by that sum", add_vectors),
    ("each stage's vectors are relative to its own highest logit: multiply them by exp(highest - "
     "log_sums) before they are added", divide_unscaled),
    ("this is the mean of the stages' own means. A stage with larger logits counts for more",
     average_stages),
    ("each stage has divided by its own sum: probabilities are over the tokens of all stages",
     own_softmax),
    ("this is the mean over the targets: return one loss for each of them", mean_of_losses),
    ("the second tensor is the sum itself: asked is its logarithm, which does not overflow",
     without_logarithm),
    ("the target's logit is not subtracted: the loss is the logarithm of the sum less that logit",
     forget_picked),
]  # fmt: skip
