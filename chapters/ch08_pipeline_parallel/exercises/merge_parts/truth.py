"""The merged parts of an output layer, and the results of known mistakes."""

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


MISTAKES = [
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
