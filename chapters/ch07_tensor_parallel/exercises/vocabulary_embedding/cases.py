"""The code that runs next to the answer."""

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous
from coursekit.kit.observed_calls import all_waited, note_bypassed
from coursekit.kit.rank_trials import IN_A_GROUP
from coursekit.kit.results import RETURNS_NONE

TOKENS = 10  # three ranks cannot have equal parts

TABLE = torch.arange(1.0, 3 * TOKENS + 1, dtype=torch.float64).view(TOKENS, 3) / 3

ALL = torch.tensor([[3, 9, 0, 4, 3, 8], [7, 6, 5, 2, 1, 9]])


class Exit:
    """A `leave` that notes what a rank adds, and returns the right sum whatever that is."""

    def __init__(self, group, tokens):
        self.group, self.whole, self.shares = group, F.embedding(tokens, TABLE), []

    def leave(self, x, group=None):
        if self.group is not None and group is not self.group:
            raise Rejection("self.leave was called without the layer's group", IN_A_GROUP)
        if not isinstance(x, torch.Tensor):
            raise Rejection(f"self.leave was given {x!r:.40}", "it takes the rows, and the group")
        self.shares.append(x.detach().clone())
        fits = x.numel() == self.whole.numel()
        return x + (self.whole.view(x.shape) - x).detach() if fits else x


def embed(answer, group, case):
    tokens = make_noncontiguous(case.args[0]).clone()
    exits, passed = Exit(group, tokens), []
    layer = answer(nn.Embedding.from_pretrained(TABLE, freeze=False), group, leave=exits.leave)
    with measure_answer(), all_waited():
        y = layer(tokens)
        if not isinstance(y, torch.Tensor):
            raise Rejection(f"forward returned {y!r:.40}", RETURNS_NONE if y is None else "")
        fits = y.shape == exits.whole.shape
        with note_bypassed() as passed:
            if y.requires_grad and fits:
                (y * slope(tokens)).sum().backward()  # backward(gradient) imports for seconds
    share, grad = exits.shares[0] if exits.shares else None, layer.weight.grad
    found = {
        "times": len(exits.shares), "passed": passed,
        "shape": None if share is None else tuple(share.shape),
        "changed": not tokens.equal(case.args[0]), "y": y.detach(),
        "gradient": torch.zeros_like(layer.weight) if grad is None else grad,
    }  # fmt: skip
    if found["shape"] != exits.whole.shape:
        return found
    return found | {"rows": map_tokens(case, lambda k: share[case.args[0] == k].mean(0))}


def slope(tokens):
    """Return a gradient of the output, different for each number and equal on all ranks."""
    numbers = torch.arange(1.0, 3 * tokens.numel() + 1, dtype=torch.float64)
    return numbers.view(*tokens.shape, 3) / 3


def map_tokens(case, row_of) -> dict:
    return {f"token {token}": row_of(token) for token in case.args[0].unique().tolist()}
