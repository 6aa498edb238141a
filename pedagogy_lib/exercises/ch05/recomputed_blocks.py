"""Blocks of a model, and forwards that may recompute them: what the check of 5.6 tries on a rank.

The truth is function(x) itself, from the same seed, without anything recomputed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

WIDTH, STALE = 4, 0.25

# ---- What is tried ---------------------------------------------------------------------------


class Model(nn.Module):
    """A layer, and blocks, which count how often one of them has run."""

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
            block[0].register_forward_hook(self.count)  # also if block.forward is called

    def count(self, *_):
        self.runs += 1


def one_block(model, x, call):
    return call(lambda x: model.blocks[0](x)[:, 1:], x)  # not of x's shape


def after_a_layer(model, x, call):
    return call(model.blocks[0], torch.tanh(model.first(x)))


def one_number(model, x, call):
    return call(lambda x: model.blocks[0](x).square().mean(), x)


def one_after_another(model, x, call):
    """Some of x goes past each block; the second one comes twice."""
    for number in (0, 1, 2, 1):
        x = x + call(model.blocks[number].forward, x)
    return x


def one_in_another(model, x, call):
    def two(x):
        return model.blocks[1](call(model.blocks[0], x))

    return call(model.blocks[2], call(two, x))


@dataclass(frozen=True)
class Case:
    """A forward, and where it is tried.

    forward  takes a model, x and call(function, x), which may recompute
    runs     how often blocks run in all, if each call's function runs twice
    stale    whether there are gradients of an earlier step
    """

    name: str
    forward: Callable
    runs: int
    dropout: float = 0.0
    stale: bool = False


CASES = {
    "one call": [Case("a function with weights", one_block, 2)],
    "without dropout": [
        Case("a layer before it", after_a_layer, 2),
        Case("gradients of an earlier step still there", after_a_layer, 2, stale=True),
        Case("it returns one number", one_number, 2),
    ],
    "with dropout": [
        Case("with dropout", one_block, 2, dropout=0.5),
        Case("four calls in a row, with dropout", one_after_another, 8, dropout=0.3),
        Case("one call in another, with dropout", one_in_another, 7, dropout=0.3),
    ],
}


# ---- On a rank -------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a forward and its backward have done.

    chances  states of the generator: after the forward, and after the backward
    runs     of blocks
    """

    y: Tensor
    gradients: dict[str, Tensor | None]
    chances: list[Tensor]
    runs: int


def compare_on_rank(answer, cases) -> list[tuple[Outcome, Outcome, Outcome]]:
    """For each case: recomputed, plain, and plain with slopes of 1."""
    return [
        (
            run_case(case, answer.lab.Recomputed.apply),
            run_case(case, plainly),
            run_case(case, plainly, slopes=torch.ones_like),
        )
        for case in cases
    ]


def plainly(function, x):
    return function(x)


def slopes_of(y) -> Tensor:
    """Another slope for each element of y."""
    return torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape) ** 2 + 0.5


def run_case(case, call, slopes=slopes_of) -> Outcome:
    torch.manual_seed(5)
    model = Model(case.dropout)
    x = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    tensors = {"x": x, **dict(model.named_parameters())}
    for tensor in tensors.values() if case.stale else ():
        tensor.grad = torch.full_like(tensor, STALE)
    y = case.forward(model, x, call)
    torch.rand(3)  # somebody else draws, too
    chances = [torch.get_rng_state()]
    y.backward(slopes(y))
    chances.append(torch.get_rng_state())
    gradients = {name: tensor.grad for name, tensor in tensors.items()}
    return Outcome(y.detach(), gradients, chances, model.runs)
