"""A model whose gradients come in another order than it lists its parameters."""

import torch
from torch import nn

from coursekit.kit.reference_training import HIDDEN, model_of


class TwoBiases(nn.Module):
    """Adds two biases; autograd passes one tensor on to both as their gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x):
        return x + (self.first + self.second)


class OtherOrder(nn.Sequential):
    """Lists two biases first, and adds them after its first layer: their gradients come sooner."""

    def forward(self, x):
        biases, first, *others = self
        for layer in (first, biases, *others):
            x = layer(x)
        return x


def own_model(rank, is_frozen):
    """Other weights on each rank, so that it shows if they travel."""
    model = OtherOrder(TwoBiases(), *model_of(rank + 1))
    model[1].weight.requires_grad_(not is_frozen)
    return model
