"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, World, measure_answer
from coursekit.kit.observed_calls import hashes_as_elsewhere
from coursekit.kit.results import NO_RETURN

GROUP_OF_3 = World(5, (1, 2, 4))


class Model(torch.nn.Module):
    """A model with something of every kind that a model may have."""

    def __init__(self):
        super().__init__()
        inner = torch.nn.Sequential(torch.nn.Linear(40, 100), torch.nn.BatchNorm1d(100))
        self.scale = torch.nn.Parameter(torch.empty(40))
        self.layers = torch.nn.ModuleDict({"first": inner, "last": torch.nn.Linear(100, 40)})
        self.layers["last"].weight.requires_grad_(False)
        self.register_buffer("mask", torch.empty(40), persistent=False)

    def forward(self, x):
        return self.layers["last"](self.layers["first"](x * self.scale * self.mask))


def model_of() -> torch.nn.Module:
    model = Model()
    chance = torch.Generator().manual_seed(0)
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            tensor.detach().copy_(torch.rand(tensor.shape, generator=chance) + 0.5)
    return model


def change(model, how, much=1):
    """Change a model in the given way."""
    first, last = model.layers["first"], model.layers["last"]
    weight = first[0].weight.detach()
    if how == "bit":
        weight.view(torch.int32)[0, 0] ^= much
    if how == "same sum":
        weight[0, 0], weight[0, 1] = weight[0, 1].clone(), weight[0, 0].clone()
    if how == "NaN":
        weight[0, 0] = torch.nan
    changed = {
        "buffer": first[1].running_mean,
        "count": first[1].num_batches_tracked,
        "not saved": model.mask,
        "last": last.bias,
        "own": model.scale,
        "inner": first[1].weight,
        "frozen": last.weight,
    }
    if how in changed:
        changed[how].detach().view(-1)[-1] += much


def state_of(model) -> dict:
    """Return all that an answer must leave unchanged."""
    return {
        "mode": [module.training for module in model.modules()],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "gradients": [parameter.grad is None for parameter in model.parameters()],
        "numbers": [x.detach().numpy().tobytes() for x in [*model.parameters(), *model.buffers()]],
    }


def compare(answer, group, case):
    """Try an answer; case.args: how models differ, and the version at each place (0: none)."""
    how, versions = case.args
    model, mine = model_of(), versions[dist.get_rank(group)]
    if mine:
        change(model, how, mine)
    before = state_of(model)
    with hashes_as_elsewhere(dist.get_rank()) as hashed, measure_answer():
        value = answer(model, group)
    if not isinstance(value, list | tuple) or any(isinstance(rank, bool) for rank in value):
        why = NO_RETURN if value is None else "asked is a list of ranks, such as [2]"
        raise Rejection(f"it returned {value!r:.40}", why)
    after = state_of(model)
    changed = [what for what in before if before[what] != after[what]]
    return {"ranks": [int(rank) for rank in value], "hashed": bool(hashed), "changed": changed}
