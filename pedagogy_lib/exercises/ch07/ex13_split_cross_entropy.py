"""A cross-entropy whose logits are split over ranks. The truth is F.cross_entropy of all logits."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...measuring.bytes_of_calls import RULES, tensors_in
from ..kit import GROUP, At, Equals, Holds, RankExercise, World, answering, never
from ..kit.counted import Counted
from ..kit.groups import PASSED_BY, Calls, noting_passed, parts_of
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused
from ..kit.requests import all_waited
from ..kit.trials import turned
from ..kit.values import VIEW

UPSTREAM = 3.0  # the gradient that the loss gets: backward() of 3 times the loss


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


SCORES, TARGETS = 2 * drawn(2, 5, 10), torch.tensor([[3, 4, 0, 9, 7], [6, 8, 5, 1, 2]])
MANY = drawn(4, 9, 120), torch.arange(36).view(4, 9) * 3
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
ADDED_UP = (
    "each rank has the logits of other tokens, so their gradients are not to be added up. Logits "
    "are inside the parallel region already: sums over the tokens leave it, and nothing enters"
)


# ---- On a rank ---


def lose(answer, group, case):
    logits, targets = case.args
    part = parts_of(logits, dist.get_world_size(group), -1)[dist.get_rank(group)]
    leaf, given = part.clone().requires_grad_(), turned(targets).clone()
    mine = leaf * 1  # as a layer gives it
    with answering(), all_waited():
        loss = answer(mine, given, group, logits.shape[-1])
    need_number(loss)
    with CallsBack(leaf.shape) as backward, noting_passed() as passed:
        if loss.requires_grad:
            (UPSTREAM * loss).backward()
    return {
        "loss": loss.item(), "gradient": leaf.grad, "passed": passed,
        "logits": not torch.equal(mine, part), "targets": not torch.equal(given, targets),
        "backward": sum(call.sent_bytes for call in backward.made),
    }  # fmt: skip


class CallsBack(Calls):
    """Those of the backward; refuses one that adds up gradients of logits, before ranks mix."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES and any(x.shape == self.shape for x in tensors_in(args)):
            what = f"in the backward a tensor {list(self.shape)} travels, as large as the logits"
            raise Refused(what, ADDED_UP)
        return super().__torch_dispatch__(func, types, args, kwargs)


def need_number(loss):
    if loss is None:
        raise Refused("it returned None", NO_RETURN)
    if not isinstance(loss, torch.Tensor):
        raise Refused(
            f"it returned {loss!r:.40}",
            "a plain number has no way back to the logits: return the tensor, without item() or "
            "float()",
        )
    if loss.dim():
        what = f"it returned a tensor of shape {list(loss.shape)}, expected a single number"
        raise Refused(what, "the mean over all targets is missing")


# ---- What is right, and what is not ---


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

    def with_foreign(row_of):
        """If for the tokens of others, too, a logit is picked."""
        picks = [part.gather(-1, row_of(r, part)[:, None])[:, 0] for r, part in zip(rows, parts)]
        return right - sum((pick - high) * ~of_rank for pick, of_rank in zip(picks, mine))

    def without(is_left_out):
        """If the logit of some of a rank's own tokens is not picked."""
        left = [of & is_left_out(r, p.shape[-1]) for r, p, of in zip(rows, parts, mine)]
        return right + (picked - high) * sum(left)

    each = {
        "each rank has taken away its own highest logit, so these sums are in different units: all "
        "take away the same, the highest of all ranks (ReduceOp.MAX)":
            (own_sum - own_high).logsumexp(0) - (picked - (own_high * mine).sum(0)),
        "the sum of exp is over this rank's tokens alone: it is to be over those of all ranks":
            own_sum[place] - picked,
        "neither the sum of exp nor the target's logit is of all ranks: the sum of exp is over "
        "this rank's tokens alone": own_sum[place] - high - here * (picked - high),
        "no rank has heard of the others: the highest logit, the sum of exp and the target's logit "
        "are over this rank's tokens alone":
            own_sum[place] - own_high[place] - here * (picked - own_high[place]),
        "the losses of the ranks' own tokens are added up. But logarithms are not added up: what "
        "they are the logarithms of is, the sums of exp": own_sum.sum(0) - picked,
        "logarithms are not added up: what they are the logarithms of is, the sums of exp. Only "
        "that of all tokens has its logarithm taken": (own_sum - high).sum(0) - (picked - high),
        "the sum of exp is right, but a target's logit is here only if the token is this rank's: "
        "it has to be summed over the ranks, too": log_sum - high - here * (picked - high),
        FOREIGN: with_foreign(lambda r, part: r * ((r >= 0) & (r < part.shape[-1]))),
        f"{FOREIGN} (clamp gives the first logit, or the last)":
            with_foreign(lambda r, part: r.clamp(0, part.shape[-1] - 1)),
        f"{FOREIGN} (% gives any)": with_foreign(lambda r, part: r % part.shape[-1]),
        "the logit of each rank's first token is never picked: places count from 0, so 0 is one "
        "of them, and no mark for what is not its own: place >= 0": without(lambda r, size: r == 0),
        "the logit of each rank's last token is never picked: place < logits.shape[-1]":
            without(lambda r, size: r == size - 1),
        "the highest logit was taken from the logits of the sum alone: take it from the target's, "
        "too": right - high,
        "the highest logit was taken from the target's logit alone: take it from those of the sum, "
        "too": right + high,
        "this is the sum over the targets, asked is the mean": right * len(targets),
        "divided by len(targets), which are the samples; each has several tokens. The mean is "
        "over all targets: mean(), or targets.numel()":
            right * len(targets) / len(trial.case.args[1]),
        "the sum of exp is there, its logarithm is not": (log_sum - high).exp() - picked + high,
    }  # fmt: skip
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

EXERCISE = RankExercise(
    "7.13",
    "split_cross_entropy",
    lab="tensor_parallel",
    needs=("7.3",),
    cases=[
        At(World(3), (SCORES, TARGETS), ", two samples of five tokens"),
        At(World(2), (1000 * SCORES, TARGETS), ", large logits"),
        At(World(3), (SCORES - 1000, TARGETS), ", logits near -1,000"),
        At(World(3), (SCORES[0, :3], torch.tensor([9, 8, 9])), ", targets of the last rank alone"),
        At(World(1), (SCORES[1:, 2:3], TARGETS[1:, 2:3]), ", a single target"),
        At(GROUP, (SCORES, TARGETS)),
        At(World(3), MANY, ", 120 tokens"),
    ],
    work=lose,
    facts=[
        Holds("loss", math.isfinite, "the loss is {}", why_infinite),
        Equals("loss", true_loss, wrong_losses),
        never("logits", "the logits have changed", CHANGED),
        never("targets", "the targets have changed", CHANGED),
        Holds("gradient", lambda x: x is None or not x.isnan().any(),
              "the loss is right; the gradient of logits is nan",
              THROUGH_HIGHEST),  # amax looks for its result, and finds that of another rank
        Equals("gradient", true_gradient, wrong_gradients, "the gradient of logits"),
        never("backward", "it sends {} bytes in the backward",
              "the numbers are right. But all ranks compute the same from the sums on, so each has "
              "their gradient already: AllReduce's backward sends nothing"),
        never("passed", lambda found: f"torch warns of {found[0]} in the backward", PASSED_BY),
        Counted(bytes_of_three, "the sums of three numbers for each target send", why_so_many),
    ],
    told=lambda trial: f"the loss is {trial[0].loss:,.4g}, and the gradients are right",
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
    lost="every rank makes the same calls with tensors of the same size, also one that has none of "
    "the targets. It adds zeros, and the others wait for it",
    hints=(
        "Three numbers for each target are enough: the highest logit of all tokens, the sum "
        "of exp(logit - highest) over all tokens, and the target's logit, which one rank has.",
        "The highest is no part of the gradient: logits.detach().amax(-1), and then "
        "dist.all_reduce with ReduceOp.MAX. Sums of the other two need a way back: "
        "AllReduce.apply.",
        "Pick the target's logit as in 7.12: place = targets - first, mine = (place >= 0) & "
        "(place < logits.shape[-1]), look up place.where(mine, 0) by gather, times mine.",
        "The loss of a target is total.log() - picked, both from logits from which the highest "
        "was taken: a new tensor, logits stays as it is. Return the mean.",
    ),
)  # fmt: skip
