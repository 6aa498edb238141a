"""Experts that nobody needs: the backward has to go through them all the same."""

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ..kit import At, Refused, World, complains
from ..kit.in_this_process import InThisProcess
from ..kit.values import NO_RETURN, NOT_ITS_OWN

FINDS_A_BUG = True

WIDTH, HIDDEN = 3, 5
CUT_OFF = (
    "what came back has no history that leads to the rows, and to the exchange behind them. On "
    "this rank the backward never makes its all-to-all, and the others wait for it"
)
NO_GRADIENTS = (
    "the result does not come from the experts' weights: their .grad stays None on this rank. In "
    "the average over the copies, it has nothing to add up, and the others wait for it"
)


WRONG_GRADIENTS = (
    "only the way through the experts counts: what is added for its history alone has to add "
    "nothing, forward and backward"
)


class Mlps(nn.Module):
    """As Experts of the lab: MLPs side by side."""

    def __init__(self, n):
        super().__init__()
        chance = torch.Generator().manual_seed(n)
        draw = lambda *shape: torch.randn(shape, generator=chance, dtype=torch.float64)  # noqa: E731
        self.up, self.down = (
            nn.Parameter(draw(n, WIDTH, HIDDEN)),
            nn.Parameter(draw(n, HIDDEN, WIDTH)),
        )

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
        raise Refused(f"it returned {y!r:.60}", NO_RETURN if y is None else "asked is a tensor")
    found = {
        "y": y.detach(),
        "changed": given.tolist() != list(counts),
        "cut_off": not y.requires_grad,
        "missing": [],
        "reached": False,
    }
    if y.requires_grad:
        weighted(y).backward()
        found["missing"] = [name for name, p in experts.named_parameters() if p.grad is None]
        found["reached"] = leaf.grad is not None
        found["gradients"] = gradients_of(experts, leaf)
    return found


def weighted(y) -> torch.Tensor:
    """A loss whose gradient is another one for each number."""
    return (y * torch.arange(1.0, y.numel() + 1, dtype=y.dtype).view(y.shape)).sum()


def gradients_of(experts, leaf) -> dict:
    return {"the rows": leaf.grad} | {name: p.grad for name, p in experts.named_parameters()}


def right_ones(counts):
    """What the experts make of the rows, and all gradients."""
    experts, leaf = Mlps(len(counts)), rows_of(counts).requires_grad_()
    y = experts(leaf, torch.tensor(counts))
    weighted(y).backward()
    return y.detach(), gradients_of(experts, leaf)


def faults(trial):
    (counts,) = trial.case.args
    of = trial[0]
    wanted, gradients = right_ones(counts)
    if of.changed:
        yield "counts has changed", NOT_ITS_OWN
    if of.y.shape != wanted.shape:
        yield f"expected the shape {list(wanted.shape)}, got {list(of.y.shape)}", ""
    elif not close(of.y, wanted):
        yield "the rows are not what the experts make of them", ""
    if of.cut_off or not of.reached:
        yield "no gradient comes back to the rows", CUT_OFF
    if of.missing:
        yield f"no gradient for the experts' {' and '.join(of.missing)}", NO_GRADIENTS
    for name, right in gradients.items():
        got = getattr(of, "gradients", {}).get(name)
        if got is None or not close(got, right):
            yield f"the gradient of {name} is not that of the experts", WRONG_GRADIENTS


EXERCISE = InThisProcess(
    "9.21",
    "through_my_experts",
    cases=[
        At(World(1), ((2, 3),), ", 2 and 3 rows"),
        At(World(1), ((0, 4),), ", nothing for the first expert"),
        At(World(1), ((0, 0),), ", nothing for either"),
        At(World(1), ((0,),), ", nothing, and one expert"),
        At(World(1), ((1, 0, 0, 2),), ", four experts, two of them without rows"),
    ],
    work=go_through,
    facts=[complains(faults)],
    told="what the experts make of them, and gradients for everything",
    errors={
        "split_with_sizes": "counts says how many rows each expert gets, and is handed on as it is",
        "no attribute 'tolist'": "counts is a tensor, and is handed on as it is",
    },
    hints=(
        "Which ranks take part in the all-to-all of the backward? What has to be true of a tensor, "
        "so that the backward goes through it?",
        "new_zeros makes a tensor that comes from nowhere: its requires_grad is False. An empty "
        "tensor can be multiplied with a matrix as well, and then it has a history.",
    ),
)
