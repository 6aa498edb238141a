"""A loss with a large vocabulary, as the exercise tries it, and a counter of its logits' rows."""

import torch
from torch import nn

from pedagogy_lib.basics.torch_private import OperatorMode

WEIGHT, BEFORE = "weight", "the layer before"


class Problem:
    """A layer, an embedding if weights are tied, the last matrix and the targets, in float64."""

    def __init__(self, positions, width, vocabulary, tied=False, stale=None):
        chance = torch.Generator().manual_seed(3)

        def draw(*shape):
            return torch.randn(*shape, generator=chance, dtype=torch.float64)

        self.layer = nn.Linear(width, width, bias=False)
        self.layer.weight = nn.Parameter(draw(width, width))
        self.weight = nn.Parameter(draw(vocabulary, width))
        self.tokens = torch.randint(vocabulary, (positions,), generator=chance)
        self.inputs, self.tied, self.times_back = draw(positions, width), tied, 0
        self.targets = torch.randint(vocabulary, (positions,), generator=chance)
        if stale is not None:
            for p in (self.weight, self.layer.weight):
                p.grad = torch.full_like(p, stale)

    def compute_hidden(self):
        inputs = self.weight[self.tokens] if self.tied else self.inputs
        inside = self.layer(inputs)
        inside.register_hook(self.count)
        return torch.tanh(inside)

    def count(self, gradient):
        """Count one backward through the layers before `hidden`."""
        self.times_back += 1

    def gradients(self) -> dict:
        return {WEIGHT: self.weight.grad, BEFORE: self.layer.weight.grad}


class Rows(OperatorMode):
    """A mode that notes the row counts of all results that are as wide as the vocabulary."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.vocabulary, self.width, self.found = vocabulary, width, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.shape[1:] == (self.vocabulary,):
            self.found |= {len(result)} - {self.width}  # the transposed matrix or its gradient
        return result
