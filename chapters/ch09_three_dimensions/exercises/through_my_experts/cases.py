"""The code that runs next to the answer, and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit import Rejection
from coursekit.kit.results import NO_RETURN

WIDTH, HIDDEN = 3, 5


class Mlps(nn.Module):
    """MLPs side by side, like the lab's Experts."""

    def __init__(self, n):
        super().__init__()
        chance = torch.Generator().manual_seed(n)
        draw = lambda *shape: torch.randn(shape, generator=chance, dtype=torch.float64)  # noqa: E731
        self.up = nn.Parameter(draw(n, WIDTH, HIDDEN))
        self.down = nn.Parameter(draw(n, HIDDEN, WIDTH))

    def forward(self, x, counts):
        parts = zip(x.split(counts.tolist()), self.up, self.down)
        return torch.cat([F.gelu(part @ up) @ down for part, up, down in parts])


def rows_of(counts) -> torch.Tensor:
    chance = torch.Generator().manual_seed(7)
    return torch.randn(sum(counts), WIDTH, generator=chance, dtype=torch.float64)


def go_through(answer, place, case):
    (counts,) = case.args
    experts, leaf = Mlps(len(counts)), rows_of(counts).requires_grad_()
    given = torch.tensor(counts)
    y = answer(experts, leaf * 1.0, given)
    if not isinstance(y, torch.Tensor):
        raise Rejection(f"it returned {y!r:.60}", NO_RETURN if y is None else "asked is a tensor")
    found = {
        "y": y.detach(),
        "changed": given.tolist() != list(counts),
        "cut_off": not y.requires_grad,
        "missing": [],
        "reached": False,
    }
    if y.requires_grad:
        make_loss(y).backward()
        found["missing"] = [name for name, p in experts.named_parameters() if p.grad is None]
        found["reached"] = leaf.grad is not None
        found["gradients"] = gradients_of(experts, leaf)
    return found


def make_loss(y) -> torch.Tensor:
    """Return a loss whose gradient is different for each number."""
    return (y * torch.arange(1.0, y.numel() + 1, dtype=y.dtype).view(y.shape)).sum()


def gradients_of(experts, leaf) -> dict:
    return {"the rows": leaf.grad} | {name: p.grad for name, p in experts.named_parameters()}
