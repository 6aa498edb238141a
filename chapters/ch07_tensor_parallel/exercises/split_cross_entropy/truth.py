"""The right results, and the results of known mistakes."""

import math

import torch
import torch.nn.functional as F

from coursekit.kit.observed_calls import parts_of

from .cases import UPSTREAM

ELSEWHERE = (
    "only this rank's logits are here: targets - first is negative, or too large, "
    "for a token of another rank. Pick any logit for those, and put a zero in its place"
)

FOREIGN = (
    "a rank adds a logit also for targets that are tokens of others: what it has picked there is "
    "to be multiplied by 0"
)

THROUGH_HIGHEST = (
    "the way back leads through the highest logit, too. That one is only taken away for exp not to "
    "overflow, and no rank sees all that becomes of it: detach it"
)


def flat(case):
    logits, targets = case.args
    return logits.flatten(0, -2), targets.flatten()


def true_loss(trial, place):
    return F.cross_entropy(*flat(trial.case)).item()


def true_gradient(trial, place):
    logits = trial.case.args[0].clone().requires_grad_()
    (UPSTREAM * F.cross_entropy(logits.flatten(0, -2), flat(trial.case)[1])).backward()
    return parts_of(logits.grad, trial.n, -1)[place]


def wrong_losses(trial, place):
    (logits, targets), n = flat(trial.case), trial.n
    parts = parts_of(logits, n, -1)
    rows = [targets - sum(part.shape[-1] for part in parts[:k]) for k in range(n)]
    mine = torch.stack([(r >= 0) & (r < p.shape[-1]) for r, p in zip(rows, parts)])
    high, own_high = logits.amax(-1), torch.stack([part.amax(-1) for part in parts])
    log_sum, own_sum = logits.logsumexp(-1), torch.stack([p.logsumexp(-1) for p in parts])
    picked = logits.gather(-1, targets[:, None])[:, 0]
    right, here = log_sum - picked, mine[place]

    def pick_foreign(row_of):
        """Return the losses if a logit is picked for other ranks' tokens, too."""
        picks = [part.gather(-1, row_of(r, part)[:, None])[:, 0] for r, part in zip(rows, parts)]
        return right - sum((pick - high) * ~of_rank for pick, of_rank in zip(picks, mine))

    def skip_tokens(is_left_out):
        """Return the losses if some of a rank's own tokens have no logit picked."""
        left = [of & is_left_out(r, p.shape[-1]) for r, p, of in zip(rows, parts, mine)]
        return right + (picked - high) * sum(left)

    each = {
        "each rank has taken away its own highest logit, so these sums are in different units: all "
        "take away the same, the highest of all ranks (ReduceOp.MAX)": (
            own_sum - own_high
        ).logsumexp(0)
        - (picked - (own_high * mine).sum(0)),
        "the sum of exp is over this rank's tokens alone: it is to be over those of all "
        "ranks": own_sum[place] - picked,
        "neither the sum of exp nor the target's logit is of all ranks: the sum of exp is over "
        "this rank's tokens alone": own_sum[place] - high - here * (picked - high),
        "no rank has heard of the others: the highest logit, the sum of exp and the target's logit "
        "are over this rank's tokens alone": own_sum[place]
        - own_high[place]
        - here * (picked - own_high[place]),
        "the losses of the ranks' own tokens are added up. But logarithms are not added up: what "
        "they are the logarithms of is, the sums of exp": own_sum.sum(0) - picked,
        "logarithms are not added up: what they are the logarithms of is, the sums of exp. Only "
        "that of all tokens has its logarithm taken": (own_sum - high).sum(0) - (picked - high),
        "the sum of exp is right, but a target's logit is here only if the token is this rank's: "
        "it has to be summed over the ranks, too": log_sum - high - here * (picked - high),
        FOREIGN: pick_foreign(lambda r, part: r * ((r >= 0) & (r < part.shape[-1]))),
        f"{FOREIGN} (clamp gives the first logit, or the last)": pick_foreign(
            lambda r, part: r.clamp(0, part.shape[-1] - 1)
        ),
        f"{FOREIGN} (% gives any)": pick_foreign(lambda r, part: r % part.shape[-1]),
        "the logit of each rank's first token is never picked: places count from 0, so 0 is one "
        "of them, and no mark for what is not its own: place >= 0": skip_tokens(
            lambda r, size: r == 0
        ),
        "the logit of each rank's last token is never picked: place < "
        "logits.shape[-1]": skip_tokens(lambda r, size: r == size - 1),
        "the highest logit was taken from the logits of the sum alone: take it from the target's, "
        "too": right - high,
        "the highest logit was taken from the target's logit alone: take it from those of the sum, "
        "too": right + high,
        "this is the sum over the targets, asked is the mean": right * len(targets),
        "divided by len(targets), which are the samples; each has several tokens. The mean is "
        "over all targets: mean(), or targets.numel()": right
        * len(targets)
        / len(trial.case.args[1]),
        "the sum of exp is there, its logarithm is not": (log_sum - high).exp() - picked + high,
    }
    return {} if trial.case.is_group else {why: loss.mean().item() for why, loss in each.items()}


def wrong_gradients(trial, place):
    logits, targets = flat(trial.case)
    hot = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    share, hot, own = (parts_of(x, trial.n, -1)[place] for x in (logits.softmax(-1), hot, logits))
    top = own == own.amax(-1, keepdim=True)
    each = {
        "it is n times too large: an all-reduce in the backward, as torch.distributed.nn has it, "
        "sums what all ranks have already. AllReduce passes the gradient on":
            trial.n * (share - hot),
        "it is divided by n: is the loss divided, or averaged? All ranks have the whole one":
            (share - hot) / trial.n,
        "the sum of exp has no gradient: was it detached, or summed into a tensor that autograd "
        "knows nothing of? AllReduce.apply keeps the way back": -hot,
        "the target's logit has no gradient: was it detached, or summed into a tensor that "
        "autograd knows nothing of? AllReduce.apply keeps the way back": share,
        "it is that of this rank's tokens alone: the exp of a logit is divided by the sum over "
        "all ranks": own.softmax(-1) - hot,
        THROUGH_HIGHEST: share - hot + top * (hot - share).sum(-1, keepdim=True),
        "it does not depend on what comes after the loss: use the gradient that backward gets":
            (share - hot) / UPSTREAM,
    }  # fmt: skip
    shape = (*trial.case.args[1].shape, -1)
    found = {why: (UPSTREAM / len(targets) * x).view(shape) for why, x in each.items()}
    return found | {
        "the loss is right, but there is no way back to the logits. Only the highest logit may be "
        "detached": None
    }  # fmt: skip


def why_infinite(trial, place):
    if trial[place].loss == -math.inf:
        return (
            "some target's logits are so far below what was taken away that all their exp are 0. "
            "One maximum for all targets is too high: take, for each target, the highest logit of "
            "all tokens"
        )
    return (
        "exp of a large logit is inf, and a sum of exp that are all 0 has no logarithm. Take the "
        "highest logit away first: for each target, that of all tokens of all ranks (ReduceOp.MAX)"
    )


def bytes_of_three(trial):
    logits, targets = trial.case.args
    return 3 * 2 * (trial.n - 1) / trial.n * targets.numel() * logits.element_size()


def why_so_many(trial, sent):
    if sent < (trial.n - 1) * parts_of(trial.case.args[0], trial.n, -1)[-1].nbytes:
        return "more is sent than the highest logit, the sum of exp and the target's logit, once"
    return (
        "the logits of all tokens travel. Of each rank's tokens the others need the highest "
        "logit and the sum of exp alone, and of one rank the target's logit"
    )


CHANGED = "the caller still needs it as it was: make a new tensor, without -= and the like"
