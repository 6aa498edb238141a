"""Programs of ZeRO with a bug: one process in their place, and how others get wrong gradients."""

from functools import partial

import torch

OPTIMIZERS = {
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.1, eps=0.1),  # with which a factor shows
}


class Maker:
    """Makes optimizers, and remembers them."""

    def __init__(self, optimizer):
        self.make, self.made = OPTIMIZERS[optimizer], []

    def __call__(self, tensors):
        self.made.append(self.make(tensors))
        return self.made[-1]
