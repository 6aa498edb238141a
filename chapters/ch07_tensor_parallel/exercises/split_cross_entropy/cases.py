"""The code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous
from coursekit.kit.observed_calls import Calls, all_waited, note_bypassed, parts_of
from coursekit.kit.results import RETURNS_NONE
from pedagogy_lib.measuring.bytes_of_calls import RULES, tensors_in

UPSTREAM = 3.0  # the gradient that the loss gets, from backward() of 3 times the loss


def draw_normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


SCORES, TARGETS = 2 * draw_normal(2, 5, 10), torch.tensor([[3, 4, 0, 9, 7], [6, 8, 5, 1, 2]])

MANY = draw_normal(4, 9, 120), torch.arange(36).view(4, 9) * 3

ADDED_UP = (
    "each rank has the logits of other tokens, so their gradients are not to be added up. Logits "
    "are inside the parallel region already: sums over the tokens leave it, and nothing enters"
)


def lose(answer, group, case):
    logits, targets = case.args
    part = parts_of(logits, dist.get_world_size(group), -1)[dist.get_rank(group)]
    leaf, given = part.clone().requires_grad_(), make_noncontiguous(targets).clone()
    mine = leaf * 1  # not a leaf, as the output of a layer
    with measure_answer(), all_waited():
        loss = answer(mine, given, group, logits.shape[-1])
    need_number(loss)
    with CallsBack(leaf.shape) as backward, note_bypassed() as passed:
        if loss.requires_grad:
            (UPSTREAM * loss).backward()
    return {
        "loss": loss.item(), "gradient": leaf.grad, "passed": passed,
        "logits": not torch.equal(mine, part), "targets": not torch.equal(given, targets),
        "backward": sum(call.sent_bytes for call in backward.made),
    }  # fmt: skip


class CallsBack(Calls):
    """The calls of a backward; one with a tensor as large as the logits raises `Rejection`."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES and any(x.shape == self.shape for x in tensors_in(args)):
            what = f"in the backward a tensor {list(self.shape)} travels, as large as the logits"
            raise Rejection(what, ADDED_UP)
        return super().__torch_dispatch__(func, types, args, kwargs)


def need_number(loss):
    if loss is None:
        raise Rejection("it returned None", RETURNS_NONE)
    if not isinstance(loss, torch.Tensor):
        raise Rejection(
            f"it returned {loss!r:.40}",
            "a plain number has no way back to the logits: return the tensor, without item() or "
            "float()",
        )
    if loss.dim():
        what = f"it returned a tensor of shape {list(loss.shape)}, expected a single number"
        raise Rejection(what, "the mean over all targets is missing")
