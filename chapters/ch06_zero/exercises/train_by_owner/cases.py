"""The cases, and the code that runs next to the answer."""

import builtins
from functools import partial
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from coursekit.kit import RankCase, Rejection, World
from coursekit.kit.reference_training import FEATURES, batch_of

from ..shared.broken_zero import Maker

ROUTES = ("ac", "abc", "ac", "b", "abc")  # the layers that each step uses


class ConditionalLayers(nn.Module):
    """Layers of which a batch uses some, as the first column of its inputs says."""

    def __init__(self, layers="abc"):
        super().__init__()
        for name in layers:
            self.add_module(name, nn.Linear(FEATURES, FEATURES, bias=False))
        self.layers = [self.get_submodule(name) for name in layers]
        self.head = nn.Linear(FEATURES, 1)
        self.double()
        source = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=source)

    def forward(self, inputs):
        switches, x = int(inputs[0, 0]), inputs[:, 1:]
        for number, layer in enumerate(self.layers):
            if switches >> number & 1:
                x = x + torch.tanh(layer(x))
        return self.head(x)


def batches_of(rank):
    """Return (inputs, targets) of each step; the inputs say which layers they use."""
    batches = []
    for step, route in enumerate(ROUTES):
        inputs, targets = batch_of(rank, step)
        switches = torch.full((len(inputs), 1), sum(1 << "abc".index(layer) for layer in route))
        batches.append((torch.cat([switches, inputs], dim=1), targets))
    return batches


def weights_of(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def try_owners(answer, group, case):
    """Return the weights after the steps of a case, and the parameters with optimizer state."""
    optimizer, steps, layers = case.args
    model, maker = ConditionalLayers(layers), Maker(optimizer)
    with patch.object(builtins, "hash", partial(need_no_name, weights_of(model), hash)):
        answer(model, F.mse_loss, batches_of(dist.get_rank())[:steps], maker)
    names = {p: name for name, p in model.named_parameters()}
    counts = {names[p]: sum(bool(made.state.get(p)) for made in maker.made) for p in names}
    return {
        "first" if steps == 1 else "weights": weights_of(model),
        "held": [name for name in counts if counts[name]],
        "anew": [name for name in counts if counts[name] > 1],  # with state in several optimizers
    }


def need_no_name(names, hash_of, x):
    """Return hash(x), but raise `Rejection` if x is a parameter's name."""
    if isinstance(x, str) and x in names:
        raise Rejection(f"the owner depends on hash({x!r})", (
            "hash() of a text is another number in each process, here by chance the same: under "
            "torchrun the ranks would not agree on who the owner is"
        ))  # fmt: skip
    return hash_of(x)


def case_of(n, optimizer, steps, layers="abc"):
    used = ["".join(filter(layers.count, route)) or "none" for route in ROUTES[:steps]]
    few = f", a model of {len(layers) + 2} parameters" * (layers != "abc")
    what = f", {optimizer}{few}, steps with the layers {', '.join(used)}"
    return RankCase(World(n), (optimizer, steps, layers), what)
