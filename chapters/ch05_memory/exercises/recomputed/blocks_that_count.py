"""A model whose blocks may be recomputed and count their runs, for exercise Recomputed."""

import torch
from torch import nn

WIDTH = 4


class Model(nn.Module):
    """A layer and several blocks; `runs` counts how often any block has run."""

    def __init__(self, dropout, blocks=3, width=WIDTH, hidden=6):
        super().__init__()
        self.first, self.runs = nn.Linear(width, width), 0
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, hidden), nn.Tanh(), nn.Dropout(dropout), nn.Linear(hidden, width)
            )
            for _ in range(blocks)
        )
        self.double()
        for block in self.blocks:
            block[0].register_forward_hook(self.count)  # counts even if block.forward is called

    def count(self, *_):
        self.runs += 1


# Forwards, which take a model, x and call(function, x), which may recompute.


def one_block(model, x, call):
    return call(lambda x: model.blocks[0](x)[:, 1:], x)  # the shape differs from that of x


def layer_then_block(model, x, call):
    return call(model.blocks[0], torch.tanh(model.first(x)))


def one_number(model, x, call):
    return call(lambda x: model.blocks[0](x).square().mean(), x)


def one_after_another(model, x, call):
    """Return x after four blocks in a row with residual connections; block 1 runs twice."""
    for number in (0, 1, 2, 1):
        x = x + call(model.blocks[number].forward, x)
    return x


def one_in_another(model, x, call):
    two = lambda x: model.blocks[1](call(model.blocks[0], x))  # noqa: E731
    return call(model.blocks[2], call(two, x))
