"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.results import NO_RETURN


def inputs_of(place, case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores and the choices of the rank at a place."""
    n, k, tokens, lonely, _ = case.args
    chance = torch.Generator().manual_seed(10 * n + place)
    scores = torch.randn(tokens, n, generator=chance, dtype=torch.float64)
    if lonely:  # nearly all tokens of this rank choose one expert
        scores[:, place % n] += 4
    bias = torch.randn(n, generator=chance, dtype=torch.float64)  # like the router's
    return scores, (scores + bias).topk(k, dim=-1).indices


def balance(answer, group, case):
    scores, experts = inputs_of(dist.get_rank(group), case)
    before = scores.clone(), experts.clone()
    scores.requires_grad_()
    with measure_answer():
        # Where ranks must not communicate, the group is None, even in a world of several ranks.
        value = answer(scores, experts, group)
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise Rejection(f"it returned {value!r:.60}", "asked is a tensor with one number")
    if not value.requires_grad:
        raise Rejection("the loss has no gradient", NO_SLOPE)
    (slopes,) = torch.autograd.grad(value.sum(), [scores], allow_unused=True)
    if slopes is None:
        raise Rejection("the loss has no gradient for the scores", NO_SLOPE)
    changed = not (scores.detach().equal(before[0]) and experts.equal(before[1]))
    return {"value": value.item(), "slopes": slopes, "changed": changed}


NO_SLOPE = (
    "the mean probabilities have a gradient, by which the router learns; the shares are counts, "
    "and have none. Was the softmax detached, or taken under no_grad?"
)


def case(world, n, k, tokens, what, lonely=False, alone=False):
    return RankCase(world, (n, k, tokens, lonely, alone), what)
