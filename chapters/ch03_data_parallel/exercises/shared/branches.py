"""A model whose gradients become ready in any order, which may differ from rank to rank."""

import torch
from torch import nn

from coursekit.kit.reference_training import equal_models


def bytes_of_branch(model) -> int:
    """Return the bytes of the smallest matrix; in buckets of that size, each branch has one."""
    return model.weights["e_matrix"].nbytes


class Branches(nn.Module):
    """A model whose forward takes branches of different sizes in any order, or leaves some out."""

    def __init__(self, width=8):
        super().__init__()
        self.frozen = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.weights = nn.ParameterDict()
        for inner, name in enumerate("edcba", 1):  # so that a's bucket comes first
            self.weights[f"{name}_matrix"] = nn.Parameter(torch.zeros(width, inner))
            self.weights[f"{name}_shift"] = nn.Parameter(torch.zeros(inner))
        self.double()

    def forward(self, x, order):
        x = x + self.frozen
        for name in order:
            matrix = self.weights[f"{name}_matrix"]
            x = x + torch.tanh(x @ matrix + self.weights[f"{name}_shift"]) @ matrix.T
        return x


def branches(count=1):
    """Return models that are equal to each other and on all ranks."""
    return equal_models(count, Branches)


def loss_along(model, order, place, step=0):
    """Return a loss that differs at each place and in each step."""
    dtype = next(model.parameters()).dtype
    x = torch.linspace(-1, 1, 8, dtype=dtype) + place + step / 3
    return (model(x, order) ** 2).mean()
