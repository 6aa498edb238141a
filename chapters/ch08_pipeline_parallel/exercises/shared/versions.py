"""One stage, or a pipeline, whose weights change while micro-batches are under way."""

from typing import NamedTuple

import torch
from torch import nn

LR, WIDTH, LETTERS, SHAPE = 0.25, 3, 7, (2, 4)  # SHAPE: samples and letters of a micro-batch


class Action(NamedTuple):
    """An action like lab("schedules").Action, because that lab has its own exercises."""

    kind: str
    microbatch: int
    chunk: int = 0


SCRIPTS = {  # {place of a stage in the model: its actions}
    "last": "F0 B0 F1 B1",
    "first": "F0 F1 B0 F2 B1 B2",
    "middle": "F0 F1 F2 B0 F3 B1 F4 B3 B2 B4",  # the last backwards are in another order
}

ROWS = {  # {ranks of a pipeline without a flush: actions of each}
    2: ("F0 F1 B0 F2 B1 F3 B2 F4 B3 B4", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"),
    3: ("F0 F1 F2 B0 F3 B1 F4 B2 B3 B4", "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"),
}  # fmt: skip

BATCHES = 5  # micro-batches of a pipeline


def actions_of(text) -> list[Action]:
    return [Action(word[0], int(word[1:])) for word in text.split()]


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def piece_of(place) -> nn.Sequential:
    """Return a stage's layers, with other weights for each place; the first stage takes letters."""
    first = nn.Embedding(LETTERS, WIDTH) if place == "first" else nn.Linear(WIDTH, WIDTH)
    piece = nn.Sequential(first, nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double()
    for seed, parameter in enumerate(piece.parameters(), 10 * len(place)):
        parameter.data = draw(seed, *parameter.shape)
    return piece


def input_of(place, i):
    if place == "first":
        chance = torch.Generator().manual_seed(i)
        return torch.randint(LETTERS, SHAPE, generator=chance)
    return draw(100 + i, *SHAPE, WIDTH)


def slope_of(i):
    """Return the gradient of micro-batch i's output on a stage that is not the last one."""
    return draw(200 + i, *SHAPE, WIDTH)


def target_of(i):
    return torch.full(SHAPE, i + 1.0, dtype=torch.float64)[..., None]


def loss_of(y, target=1.0):
    return (y - target).square().mean()


def places_of(n) -> list[str]:
    return ["first", *["middle"] * (n - 2), "last"]
