"""A stage of ZeRO trained beside one process, for the checks of 6.4 and 6.7: what ranks find."""

from functools import partial
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ..kit.models import SAMPLES, WIDTH, EveryKind, equal_models, loss_of, share_of, tensors_of
from ..kit.refused import Refused
from .ex03_reduce_gradients import part_of

OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.5),
    "Adam": partial(torch.optim.Adam, lr=0.05),
}


# ---- What is trained ---


class Branch(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(WIDTH, inner))
        self.shift = nn.Parameter(torch.zeros(inner))

    def forward(self, x):
        return x + torch.tanh(x @ self.matrix + self.shift) @ self.matrix.T


class Forked(EveryKind):
    """With branches, of which a forward takes some, in any order."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(Branch(inner) for inner in (1, 2, 3, 5)).double()

    def forward(self, tokens, order):
        x = self.norm(torch.tanh(self.frozen(self.embedding(tokens))))
        for number in order:
            x = self.branches[number](x)
        return self.scale * self.output(x)


ORDERS = [(0, 1, 2, 3), (3, 0), (1, 2), (2, 3, 1)]


def loss_of_place(model, step, number, place, n):
    """What the samples of one place add to the mean loss of all, in a backward of a step."""
    order = ORDERS[(place + step + number) % len(ORDERS)]
    net = lambda tokens: model(tokens, order)  # noqa: E731
    return loss_of(net, 10 * step + number, share_of(place, n), 1 / SAMPLES)


def slopes_of(model, *where):
    """{name: what `loss_of_place(model, *where)` adds to its gradient}."""
    ps = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss_of_place(model, *where), list(ps.values()), allow_unused=True)
    return {name: torch.zeros_like(ps[name]) if x is None else x for name, x in zip(ps, found)}


def parts_of(zero, model) -> dict[str, list[str]]:
    """{unit: the names of its parameters}; a unit is called as its module is."""
    modules = {module: name or "the model itself" for name, module in model.named_modules()}
    names = {p: name for name, p in model.named_parameters()}
    return {modules[module]: [names[p] for p in unit.parameters]
            for module, unit in zero.units.items()}  # fmt: skip


def flat_parts(parts, tensors):
    """{unit: all its numbers, one after another}."""
    return {part: torch.cat([tensors[name].detach().flatten().double() for name in names])
            for part, names in parts.items()}  # fmt: skip


def weights_of(parts, model):
    tensors = tensors_of(model)
    rest = [name for name in tensors if all(name not in names for names in parts.values())]
    return flat_parts(parts | {"what is not trained": rest}, tensors)


# ---- On a rank ---


class Watch:
    """What else is looked at while a model is trained: nothing, in stage 1."""

    def __init__(self, model):
        self.model = model

    def follow(self, zero):
        """Called when there is a `zero`."""

    def end_backward(self, where):
        """Called after each backward."""


class Optimizers:
    """Makes optimizers, and knows what their steps have found, and what they have kept."""

    def __init__(self, name):
        self.make, self.made, self.steps = OPTIMIZERS[name], [], []

    def __call__(self, parameters):
        self.made.append(self.make(parameters))
        self.made[-1].register_step_pre_hook(self.before_step)
        return self.made[-1]

    def before_step(self, optimizer, *_):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.steps.append({p: None if p.grad is None else p.grad.clone() for p in parameters})

    def kept(self) -> int:
        """How many numbers their states have; the step count of each parameter does not count."""
        states = [state for optimizer in self.made for state in optimizer.state.values()]
        values = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
        return sum(x.numel() for x in values if x.ndim)


def train_on_rank(answer, group, case, watching=Watch):
    """What became of a model in each step, and of one that one process has trained."""
    optimizer, backwards = case.args
    mine, alone = equal_models(2, Forked)
    optimizers, watch = Optimizers(optimizer), watching(mine)
    for p in mine.parameters():
        p.data += dist.get_rank(group)  # the first one's weights are everybody's
    zero = answer(mine, optimizers, [mine.norm, *mine.branches], group)
    watch.follow(zero)
    if not close(list(mine.parameters()), list(alone.parameters())):
        raise Refused("the weights are not rank 0's before the first step", 'first: check("3.4")')
    by_itself, found = OPTIMIZERS[optimizer](alone.parameters()), {"steps": {}}
    for step, count in enumerate(backwards, 1):
        found["steps"][step], seen = take_step(step, count, zero, watch, alone, optimizers, group)
        by_itself.step()
        found["steps"][step].wanted = weights_of(parts_of(zero, mine), alone)
        found |= {f"{name} {step}": value for name, value in seen.items()}
    shards = sum(unit.shard.numel() for unit in zero.units.values())
    return found | {"kept": (optimizers.kept(), shards)}


def take_step(step, backwards, zero, watch, alone, optimizers, group):
    """Returns what is right, and what is there; leaves one process's gradients in `alone`.

    backwards  before the step; with 0 the shards are given their gradients
    """
    place, n, mine = dist.get_rank(group), dist.get_world_size(group), watch.model
    parts = parts_of(zero, mine)
    slopes = [[slopes_of(alone, step, number, k, n) for k in range(n)]
              for number in range(backwards or 1)]  # fmt: skip
    for name in slopes[0][0]:
        alone.get_parameter(name).grad = sum(of[name] for of_places in slopes for of in of_places)
    flats = [[flat_parts(parts, of) for of in of_places] for of_places in slopes]
    right = SimpleNamespace(
        before=weights_of(parts, alone),
        slopes={part: torch.stack([torch.stack([of[part] for of in of_places])
                                   for of_places in flats]) for part in parts},
    )  # fmt: skip
    optimizers.steps.clear()
    if not backwards:
        for unit, slope in zip(zero.units.values(), right.slopes.values()):
            unit.shard.grad = part_of(slope.sum((0, 1)), n, place)
        zero.update()
        return right, {"update": weights_of(parts, mine)} | leftovers(zero, mine)
    for number in range(backwards):
        (n * loss_of_place(mine, step, number, place, n)).backward()
        watch.end_backward(f"step {step}, backward {number + 1}")
    zero.step()
    seen = {"count": len(optimizers.steps), "weights": weights_of(parts, mine)}
    return right, seen | gradients_in(optimizers, zero, parts) | leftovers(zero, mine)


def gradients_in(optimizers, zero, parts):
    """What the optimizer's first step has found in the shards; nothing if it is not made of them."""
    shards = {part: unit.shard for part, unit in zip(parts, zero.units.values())}
    if not optimizers.steps or set(optimizers.steps[0]) != set(shards.values()):
        return {}
    found = {part: optimizers.steps[0][shard] for part, shard in shards.items()}
    return {"without": [part for part in found if found[part] is None], "gradients": found}


def leftovers(zero, model):
    """Who still has a gradient, and whether it is more than zeros; which parameters are copies."""
    units = zero.units.values()
    owners = [*model.named_parameters(), *(("a shard", unit.shard) for unit in units)]
    left = [(name, bool(p.grad.any())) for name, p in owners if p.grad is not None]
    memory = lambda x: x.untyped_storage().data_ptr()  # noqa: E731
    copies = [p for unit in units for p in unit.parameters if memory(p) != memory(unit.flat)]
    return {"left": left, "copies": len(copies)}
