"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import GROUP, RankCase, World, measure_answer
from coursekit.kit.collective_exercise import make_noncontiguous, numbers
from coursekit.kit.observed_calls import all_waited


class ToyModel(nn.Module):
    """A model with each kind of parameter: cut along one dim or the other, whole, tied, frozen.

    The parameters of `unused` and the frozen one get no gradient.
    """

    def __init__(self):
        super().__init__()
        self.places, self.letters = nn.Embedding(5, 2), nn.Embedding(4, 2)
        self.unused, self.scale = nn.LayerNorm(2), nn.Parameter(torch.ones(()))
        self.norm, self.first, self.second = nn.LayerNorm(2), nn.Linear(2, 3), nn.Linear(3, 2)
        self.output, self.places_again = nn.Linear(2, 4, bias=False), nn.Embedding(5, 2)
        self.frozen = nn.Linear(2, 2, bias=False).requires_grad_(False)
        self.output.weight, self.places_again.weight = self.letters.weight, self.places.weight
        self.letters.weight.cut_dim = self.first.weight.cut_dim = self.first.bias.cut_dim = 0
        self.second.weight.cut_dim = 1
        self.double()


SHAPES = {name: p.shape for name, p in ToyModel().named_parameters()}

CASES = [RankCase(World(3)), RankCase(World(2)), RankCase(GROUP)]

WITHOUT = ("unused.weight", "unused.bias", "frozen.weight")


def gradients_in(model) -> dict:
    grads = {name: p.grad for name, p in model.named_parameters()}
    return {name: None if g is None else g.clone() for name, g in grads.items()}


def sum_on_rank(answer, group, case):
    model = ToyModel()
    for name, p in model.named_parameters():
        p.grad = gradient_of(name, dist.get_rank(group), case)
    weights, before = [p.detach().clone() for p in model.parameters()], gradients_in(model)
    with measure_answer(), all_waited():
        answer(model, group)
    after = gradients_in(model)
    return {
        "after": after, "frozen": after["frozen.weight"] is not None,
        "filled": [name for name in WITHOUT[:2] if after[name] is not None],
        "changed": not all(map(torch.equal, weights, model.parameters())),
        "gone": [name for name, of in before.items() if of is not None and after[name] is None],
    }  # fmt: skip


def gradient_of(name, place, case) -> torch.Tensor | None:
    """Return a rank's gradient before the call."""
    if name in WITHOUT:
        return None
    gradient = numbers(place, SHAPES[name], torch.float64, list(SHAPES).index(name)) / 3
    return make_noncontiguous(gradient) if is_turned(case, name) else gradient


def is_turned(case, name) -> bool:
    """Return whether a gradient is not contiguous; in the first case, all are contiguous."""
    return case != CASES[0] and len(SHAPES[name]) > 1
