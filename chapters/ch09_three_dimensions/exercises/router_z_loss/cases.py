"""The code that runs next to the answer, and its inputs."""

import torch
import torch.distributed as dist

from coursekit.kit import RankCase, Rejection, measure_answer
from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.torch_private import OperatorMode
from pedagogy_lib.measuring.bytes_of_calls import tensors_in

NO_SLOPE = (
    "the scores learn through this loss: they have to stay in autograd's graph. torch.tensor(…), "
    ".item() and .detach() leave it, and an all-reduce of the loss is not part of it"
)

OTHER_DTYPE = "the loss is computed in the scores' dtype, here float64: do not convert them"


class NumbersSent(OperatorMode):
    """A mode that records how many numbers each communication call gets."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            self.counts.append(sum(x.numel() for x in tensors_in(args[0])))
        return func(*args, **(kwargs or {}))


def case(world, tokens, n, what, shift=0.0, alone=False):
    return RankCase(world, (tokens, n, shift, alone), what)


def scores_of(place, case) -> torch.Tensor:
    """Return the scores of the rank at a place."""
    tokens, n, shift, _ = case.args
    chance = torch.Generator().manual_seed(10 * n + place)
    return 2 * torch.randn(tokens[place], n, generator=chance, dtype=torch.float64) + shift + place


def compute_loss(answer, group, case):
    scores = scores_of(dist.get_rank(group), case)
    before = scores.clone()
    scores.requires_grad_()
    with measure_answer(), NumbersSent() as sent:
        # Where ranks must not communicate, the group is None, even in a world of several ranks.
        value = answer(scores, None if case.args[-1] else group or dist.group.WORLD)
    if value is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise Rejection(f"it returned {value!r:.60}", "asked is a tensor with one number")
    if not value.requires_grad:
        raise Rejection("the loss has no gradient", NO_SLOPE)
    if value.dtype != scores.dtype:
        raise Rejection(f"it returned a number of {value.dtype}", OTHER_DTYPE)
    (slopes,) = torch.autograd.grad(value.sum(), [scores], allow_unused=True)
    if slopes is None:
        raise Rejection("the loss has no gradient for the scores", NO_SLOPE)
    return {
        "value": value.item(),
        "slopes": slopes,
        "changed": not scores.detach().equal(before),
        "numbers": sent.counts,
    }
