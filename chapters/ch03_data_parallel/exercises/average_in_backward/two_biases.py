"""A model whose gradients become ready in another order than it lists its parameters."""

import torch
from torch import nn

from coursekit.kit.reference_training import HIDDEN, model_of


class TwoBiases(nn.Module):
    """A layer that adds two biases; autograd passes one tensor on to both as their gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x):
        return x + (self.first + self.second)


class OtherOrder(nn.Sequential):
    """Layers whose biases are listed first but used second, so their gradients are ready sooner."""

    def forward(self, x):
        biases, first, *others = self
        for layer in (first, biases, *others):
            x = layer(x)
        return x


def own_model(rank, is_frozen):
    """Return a model with other weights on each rank, so that it shows if they travel."""
    model = OtherOrder(TwoBiases(), *model_of(rank + 1))
    model[1].weight.requires_grad_(not is_frozen)
    return model
