"""Optimizers for ZeRO programs with a bug, and a maker that records the optimizers it makes."""

from functools import partial

import torch

OPTIMIZERS = {
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.1, eps=0.1),  # with this eps, a wrong factor shows
}


class Maker:
    """A maker of optimizers, which records them in `made`."""

    def __init__(self, optimizer):
        self.make, self.made = OPTIMIZERS[optimizer], []

    def __call__(self, tensors):
        self.made.append(self.make(tensors))
        return self.made[-1]
