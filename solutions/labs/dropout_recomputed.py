# Built from chapters/ch08_pipeline_parallel/labs/dropout_recomputed.py by `make build`.
"""Gradients of a stage with dropout that recomputes its forward, compared with a plain stage.

python labs/dropout_recomputed.py
"""

import contextlib

import torch
from pipeline_parallel import RecomputingStage, Stage
from torch import nn

MICROBATCHES, WIDTH = 3, 64


class NoStateStage(RecomputingStage):
    """A RecomputingStage that draws other random numbers when it recomputes."""

    def replay_randomness(self, x, state):
        return contextlib.nullcontext()


def one_pass(kind, rate) -> tuple[torch.Tensor, torch.Tensor]:
    """Run forwards, then backwards; return all outputs and the gradient of the weights.

    kind  the class of the stage
    rate  of the dropout behind its linear layer
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
    """Return how far outputs and gradients are from a plain Stage's, relative to those."""
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
