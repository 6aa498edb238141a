"""A stage that computes its forward twice, and dropout: are its gradients right?

python labs/dropout_recomputed.py
"""

import contextlib

import torch
from pipeline_parallel import RecomputingStage, Stage
from torch import nn

MICROBATCHES, WIDTH = 3, 64


class NoStateStage(RecomputingStage):
    """As RecomputingStage, but it draws other random numbers when it computes again."""

    def replay_randomness(self, x, state):
        return contextlib.nullcontext()


def one_pass(kind, rate) -> tuple[torch.Tensor, torch.Tensor]:
    """All outputs, and the gradient of the weights, of some micro-batches: forwards, backwards.

    kind  the class of the stage; rate  of the dropout behind its linear layer
    """
    torch.manual_seed(0)
    piece = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(rate)).double()
    xs = torch.randn(MICROBATCHES, 16, WIDTH, dtype=torch.float64)
    stage = kind(piece)
    ys = [stage.forward(i, x) for i, x in enumerate(xs)]
    for i, y in enumerate(ys):
        stage.backward(i, torch.ones_like(y))
    return torch.cat(ys), piece[0].weight.grad


def measure_deviation(kind, rate) -> tuple[float, float]:
    """How far outputs and gradients are from those of a plain Stage, as a share of them."""
    pairs = zip(one_pass(kind, rate), one_pass(Stage, rate))
    return tuple(((found - right).norm() / right.norm()).item() for found, right in pairs)


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for kind in (RecomputingStage, NoStateStage):
        for rate in (0.0, 0.5):
            outputs, gradients = measure_deviation(kind, rate)
            print(f"{kind.__name__:16} dropout {rate}: outputs differ by {outputs:.0%}, "
                  f"gradients by {gradients:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
