"""A cross-entropy whose scores are split over ranks: exercise 7.12.

The truth is F.cross_entropy of all scores.
"""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close, close_in_float32, told_gap
from ...course.checking import Exercise, Wrong
from ...course.loaded_labs import NotSolvedYet
from ..kit.groups import WORLDS, Calls, need_known, noting_passed, parts_of, try_groups
from ..kit.on_ranks import IN_A_GROUP
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused

UPSTREAM = 3.0  # the gradient that the loss gets: backward() of 3 times the loss


def cases() -> dict:
    """{case: all scores, and targets}. Ten letters are never shared out evenly among three."""
    chance = torch.Generator().manual_seed(7)
    scores = 2 * torch.randn(2, 5, 10, generator=chance, dtype=torch.float64)
    targets = torch.tensor([[3, 4, 0, 9, 7], [6, 8, 5, 1, 2]])
    many = torch.randn(4, 9, 120, generator=chance, dtype=torch.float64)
    return {
        "two samples of five letters": (scores, targets),
        "large scores": (1000 * scores, targets),
        "scores near -10,000": (scores - 10_000, targets),
        "targets of the last rank alone": (scores[0, :3], torch.tensor([9, 8, 9])),
        "a single target": (scores[1:, 2:3], targets[1:, 2:3]),
        "120 letters": (many, torch.arange(36).view(4, 9) * 3),
    }


LOSS_ERRORS = {
    "out of bounds": "only this rank's scores are here: targets - first is negative, or too large, "
    "for a letter of another rank. Pick any score for those, and put a zero in its place",
    "out of range": "only this rank's scores are here: targets - first is negative, or too large, "
    "for a letter of another rank. Pick any score for those, and put a zero in its place",
    "Index tensor must have the same number of dimensions": "gather needs an index with as many "
    "dimensions as scores: place.unsqueeze(-1), and squeeze(-1) of what it gives",
    "invalid tensor size": "this call takes equal parts alone, and the letters are not shared out "
    "evenly. But the scores of all letters need not travel: three numbers for each target do",
    "to be contiguous": "what travels has to lie in one piece: contiguous()",
    "does not require grad": "the loss has no way back to the scores: see what was detached",
    "modified by an inplace operation": "autograd needs a tensor for the backward that has been "
    "changed since: what travels in place has to be a tensor of its own",
}
SAME_CALLS = (
    "every rank makes the same calls with tensors of the same size, also one that has none of the "
    "targets. It adds zeros, and the others wait for it"
)


# ---- On a rank -------------------------------------------------------------------------------


def lose_on_rank(answer, group) -> list[dict]:
    need_sum(answer.lab, group)
    return [lose(answer, group, *case) for case in cases().values()]


def need_sum(lab, group):
    """Raise `Refused` unless the lab's AllReduce, which most answers use, is right."""
    x = torch.tensor(dist.get_rank(group) + 1.0, requires_grad=True)
    try:
        y = lab.AllReduce.apply(x * 1, group)
        y.backward()
    except NotSolvedYet:
        return
    except Exception as error:
        raise Refused(f"AllReduce raised {error!r:.60}", 'first: check("7.3")') from None
    n = dist.get_world_size(group)
    if y.item() != n * (n + 1) / 2 or x.grad != 1:
        raise Refused("AllReduce gives a wrong sum, or a wrong gradient", 'first: check("7.3")')


def lose(answer, group, scores, targets) -> dict:
    """What came of one case on this rank."""
    part = parts_of(scores, dist.get_world_size(group), -1)[dist.get_rank(group)]
    leaf, given = part.clone().requires_grad_(), targets.clone()
    mine = leaf * 1  # as a layer gives it
    with Calls() as forward:
        loss = answer(mine, given, group, scores.shape[-1])
    need_number(loss)
    with Calls() as backward, noting_passed() as passed:
        if loss.requires_grad:
            (UPSTREAM * loss).backward()
    changed = [
        name
        for name, x, before in (("scores", mine, part), ("targets", given, targets))
        if not torch.equal(x.detach(), before)
    ]
    sent = [sum(call.sent_bytes for call in calls.made) for calls in (forward, backward)]
    return {"loss": loss.item(), "gradient": leaf.grad, "changed": changed, "sent": sent,
            "passed": passed}  # fmt: skip


def need_number(loss):
    if loss is None:
        raise Refused("it returned None", NO_RETURN)
    if not isinstance(loss, torch.Tensor):
        raise Refused(f"it returned {loss!r:.40}", NO_GRAPH)
    if loss.dim():
        what = f"it returned a tensor of shape {list(loss.shape)}, expected a single number"
        raise Refused(what, "the mean over all targets is missing")


NO_GRAPH = (
    "a plain number has no way back to the scores: return the tensor, without item() or float()"
)


# ---- Judging ---------------------------------------------------------------------------------


def examine_split_cross_entropy(answer):
    for groups in WORLDS:
        found = try_groups(groups, lose_on_rank, answer, LOSS_ERRORS, SAME_CALLS)
        otherwise = IN_A_GROUP if len(groups) > 1 else ""
        for who, of_ranks in found:
            for number, (case, (scores, targets)) in enumerate(cases().items()):
                one = [of[number] for of in of_ranks]
                judge_loss(f"{who}, {case}", one, scores, targets, otherwise)
            losses = [one_process(*case)[0] for case in cases().values()]
            yield f"{who}: losses from {min(losses):.2f} to {max(losses):,.0f}, and their gradients"
            if len(of_ranks) == 3:
                yield judge_cost(who, [of[-1] for of in of_ranks], scores, targets)


def one_process(scores, targets):
    """The loss, and the gradient of 3 times the loss."""
    whole = scores.clone().requires_grad_()
    loss = F.cross_entropy(whole.view(-1, scores.shape[-1]), targets.flatten())
    (UPSTREAM * loss).backward()
    return loss.item(), whole.grad


def judge_loss(case, found, scores, targets, otherwise):
    n, (loss, gradient) = len(found), one_process(scores, targets)
    largest = scores.abs().max().item()  # the loss is a difference of scores
    for rank, of in enumerate(found):
        if not close(of["loss"], loss, scale=largest):
            what = f"rank {rank}, the loss is {of['loss']:.10g}, expected {loss:.10g}"
            why = why_loss(scores, targets, rank, n, of["loss"], loss)
            raise Wrong(case, what, why or otherwise)
        if of["changed"]:
            raise Wrong(case, f"rank {rank}: the {of['changed'][0]} have changed", CHANGED)
    for rank, of in enumerate(found):
        right = parts_of(gradient, n, -1)[rank]
        if of["gradient"] is None:
            raise Wrong(case, f"rank {rank}, the loss is right, but has no gradient", LOST)
        if not close(of["gradient"], right):
            off = told_gap(of["gradient"], right)
            what = f"rank {rank}, the loss is right; the gradient of scores is off by {off}"
            why = why_gradient(scores, targets, rank, n, of["gradient"])
            raise Wrong(case, what, why or otherwise)
        if of["sent"][1]:
            what = f"rank {rank} sends {of['sent'][1]} bytes in the backward"
            raise Wrong(f"cost, {case}", what, QUIET_BACKWARD)
    need_known(case, [of["passed"] for of in found])


CHANGED = "the caller still needs it as it was: make a new tensor, without -= and the like"
LOST = "there is no way back to the scores. Only the highest score may be detached"
QUIET_BACKWARD = (
    "the numbers are right. But all ranks compute the same from the sums on, so each has their "
    "gradient already: AllReduce's backward sends nothing"
)


def judge_cost(who, found, scores, targets) -> str:
    n, numbers = len(found), targets.numel()
    for_one = 2 * (n - 1) / n * targets.numel() * scores.element_size()
    most = (n - 1) * parts_of(scores, n, -1)[0].nbytes
    for rank, of in enumerate(found):
        sent = of["sent"][0]
        if sent > 3 * for_one:
            what = (
                f"for {numbers} targets rank {rank} sends {sent:,} bytes; the sums of three "
                f"numbers for each are {3 * for_one:,.0f}"
            )
            raise Wrong(f"cost, {who}", what, SCORES_TRAVEL if sent >= most else TOO_MUCH)
    return (
        f"cost, {who}: {sent:,} bytes from each rank for {numbers} targets, and none in the "
        f"backward; all scores would be {most:,}"
    )


SCORES_TRAVEL = (
    "the numbers are right, but the scores of all letters travel. Of each rank's letters the "
    "others need the highest score and the sum of exp alone, and of one rank the target's score"
)
TOO_MUCH = (
    "the numbers are right, but more is sent than the highest score, the sum of exp and the "
    "target's score of each target, once"
)


# ---- Misconceptions --------------------------------------------------------------------------


def why_loss(scores, targets, rank, n, got, right) -> str:
    if not math.isfinite(got):
        return ONE_HIGHEST if got == -math.inf else OVERFLOW
    guesses = guesses_at_loss(scores.view(-1, scores.shape[-1]), targets.flatten(), rank, n)
    fits = (why for why, guess in guesses if close(got, guess.mean().item()))
    return next(fits, IN_FLOAT32 if close_in_float32(got, right) else "")


IN_FLOAT32 = (
    "nearly right: it was rounded on its way. A tensor of your own, such as torch.zeros(3), is of "
    "float32 unless told otherwise; give it the dtype of scores"
)
OVERFLOW = (
    "exp of a large score is inf, and a sum of exp that are all 0 has no logarithm. Take the "
    "highest score away first: for each target, that of all letters of all ranks (ReduceOp.MAX)"
)
ONE_HIGHEST = (
    "some target's scores are so far below what was taken away that all their exp are 0. One "
    "maximum for all targets is too high: take, for each target, the highest score of all letters"
)
OWN_HIGHEST = (
    "each rank has taken away its own highest score, so these sums are in different units: all "
    "take away the same, the highest of all ranks (ReduceOp.MAX)"
)
OWN_SUM = "the sum of exp is over this rank's letters alone: it is to be over those of all ranks"
LOGARITHMS_ADDED = (
    "logarithms are not added up: what they are the logarithms of is, the sums of exp. Only that "
    "of all letters has its logarithm taken"
)
OWN_TARGETS = (
    "the sum of exp is right, but a target's score is here only if the letter is this rank's: it "
    "has to be summed over the ranks, too"
)
FOREIGN = (
    "a rank adds a score also for targets that are letters of others: what it has picked there is "
    "to be multiplied by 0"
)


def guesses_at_loss(scores, targets, rank, n) -> list[tuple[str, torch.Tensor]]:
    """[(sentence, what this misconception gives for each target), …]."""
    parts = parts_of(scores, n, -1)
    place = [targets - sum(part.shape[-1] for part in parts[:k]) for k in range(n)]
    mine = [(p >= 0) & (p < part.shape[-1]) for p, part in zip(place, parts)]
    high, own_high = scores.amax(-1), torch.stack([part.amax(-1) for part in parts])
    log_sum, own_sum = scores.logsumexp(-1), torch.stack([p.logsumexp(-1) for p in parts])
    picked = scores[range(len(targets)), targets]
    right, owners_high = log_sum - picked, (own_high * torch.stack(mine)).sum(0)
    apart = (own_sum - own_high).logsumexp(0)

    def with_foreign(place_of):
        """If of the letters of others, too, a score is picked."""
        picks = [part.gather(-1, place_of(p, part)[:, None])[:, 0] for p, part in zip(place, parts)]
        return right - sum((pick - high) * ~of_rank for pick, of_rank in zip(picks, mine))

    return [
        (OWN_HIGHEST, apart - (picked - owners_high)),
        (OWN_HIGHEST, apart + own_high[rank] - picked),
        (OWN_SUM, own_sum[rank] - picked),
        (OWN_SUM, own_sum[rank] - high - mine[rank] * (picked - high)),
        (OWN_SUM, own_sum[rank] - own_high[rank] - mine[rank] * (picked - own_high[rank])),
        (LOGARITHMS_ADDED, own_sum.sum(0) - picked),
        (LOGARITHMS_ADDED, (own_sum - high).sum(0) - (picked - high)),
        (OWN_TARGETS, log_sum - high - mine[rank] * (picked - high)),
        (OWN_TARGETS, log_sum - mine[rank] * picked),
        (FOREIGN, with_foreign(lambda p, part: p.clamp(0, part.shape[-1] - 1))),
        (FOREIGN, with_foreign(lambda p, part: p * ((p >= 0) & (p < part.shape[-1])))),
        (FOREIGN, with_foreign(lambda p, part: p % part.shape[-1])),
        (TARGET_AS_IT_WAS, right - high),
        (SUM_AS_IT_WAS, right + high),
        (NO_MEAN, right * len(targets)),
        (NO_LOGARITHM, (log_sum - high).exp() - picked + high),
        (NO_LOGARITHM, log_sum.exp() - picked),
        (N_TIMES, n * right),
        (DIVIDED, right / n),
        (SIGN, -right),
    ]


TARGET_AS_IT_WAS = (
    "the highest score was taken from the scores of the sum alone: take it from the target's, too"
)
SUM_AS_IT_WAS = (
    "the highest score was taken from the target's score alone: take it from those of the sum, too"
)
NO_MEAN = "this is the sum over the targets, asked is the mean"
NO_LOGARITHM = "the sum of exp is there, its logarithm is not"
N_TIMES = "the loss is n times too large: every rank has it, there is nothing left to add up"
DIVIDED = "the loss is divided by n: every rank has all of it, there is no mean over ranks to take"
SIGN = "the sign is wrong: it is the logarithm of the sum, less the target's score"


THROUGH_HIGHEST = (
    "the way back leads through the highest score, too. That one is only taken away for exp not to "
    "overflow, and no rank sees all that becomes of it: detach it"
)


def why_gradient(scores, targets, rank, n, got) -> str:
    if got.isnan().any():  # amax looks for its result, and finds that of another rank
        return THROUGH_HIGHEST
    flat, labels = scores.view(-1, scores.shape[-1]), targets.flatten()
    hot = F.one_hot(labels, scores.shape[-1]).to(flat.dtype)
    share, own_hot = (parts_of(x, n, -1)[rank] for x in (flat.softmax(-1), hot))
    own = parts_of(flat, n, -1)[rank]
    top = own == own.amax(-1, keepdim=True)
    through_highest = top * (own_hot - share).sum(-1, keepdim=True)
    guesses = {
        "it is n times too large: an all-reduce in the backward, as torch.distributed.nn has it, "
        "sums what all ranks have already. AllReduce passes the gradient on": n * (share - own_hot),
        "it is divided by n: is the loss divided, or averaged? All ranks have the whole one":
            (share - own_hot) / n,
        "the sum of exp has no gradient: was it detached, or summed into a tensor that autograd "
        "knows nothing of? AllReduce.apply keeps the way back": -own_hot,
        "the target's score has no gradient: was it detached, or summed into a tensor that "
        "autograd knows nothing of? AllReduce.apply keeps the way back": share,
        "it is that of this rank's letters alone: the exp of a score is divided by the sum over "
        "all ranks": own.softmax(-1) - own_hot,
        THROUGH_HIGHEST: share - own_hot + through_highest,
        "it does not depend on what comes after the loss: use the gradient that backward gets":
            (share - own_hot) / UPSTREAM,
    }  # fmt: skip
    got = got.view(-1, got.shape[-1]) * len(labels) / UPSTREAM
    fits = (why for why, guess in guesses.items() if close(got, guess))
    return next(fits, "")


EXERCISE = Exercise(
    "7.12", "split_cross_entropy", examine_split_cross_entropy,
    (
        "Three numbers for each target are enough: the highest score of all letters, the sum "
        "of exp(score - highest) over all letters, and the target's score, which one rank has.",
        "The highest is no part of the gradient: scores.detach().amax(-1), and then "
        "dist.all_reduce with ReduceOp.MAX. Sums of the other two need a way back: "
        "AllReduce.apply.",
        "Pick the target's score as in 7.11: place = targets - first, mine = (place >= 0) & "
        "(place < scores.shape[-1]), look up place.where(mine, 0) by gather, times mine.",
        "The loss of a target is total.log() - picked, both from scores from which the highest "
        "was taken: a new tensor, scores stays as it is. Return the mean.",
    ),
    lab="tensor_parallel",
)  # fmt: skip
