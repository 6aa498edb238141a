"""Training with a ZeRO stage on ranks, compared with one process, for Zero1 and Zero2."""

from functools import cache, partial
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn

from coursekit.kit import Rejection
from coursekit.kit.reference_training import (
    SAMPLES,
    WIDTH,
    EveryKind,
    equal_models,
    loss_of,
    share_of,
    tensors_of,
)
from pedagogy_lib.basics.closeness import close

from ..reduce_gradients.cases import part_of

OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.5),
    "Adam": partial(torch.optim.Adam, lr=0.05),
}
ORDERS = [(0, 1, 2, 3), (3, 0), (1, 2), (2, 3, 1)]  # orders in which branches are taken
THE_REST = "the model itself"


class BranchingModel(EveryKind):
    """A model with branches, of which a forward takes some, in any order."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4)).double()

    def forward(self, tokens, order):
        x = self.norm(torch.tanh(self.frozen(self.embedding(tokens))))
        for number in order:
            x = x + torch.tanh(self.branches[number](x))
        return self.scale * self.output(x)


def loss_of_place(model, step, number, place, n):
    """Return the contribution of one place's samples to the mean loss of a backward."""
    order = ORDERS[(place + step + number) % len(ORDERS)]
    if (step, number) == (1, 0):  # at first all branches, in a different order per rank
        order = [(place + branch) % len(ORDERS) for branch in ORDERS[0]]
    net = lambda tokens: model(tokens, order)  # noqa: E731
    return loss_of(net, 10 * step + number, share_of(place, n), 1 / SAMPLES)


def unit_names() -> dict[str, list[str]]:
    """Return {unit: the names of its parameters}; the norm and each branch is a unit."""
    found, modules = {}, ["norm", *(f"branches.{k}" for k in range(len(ORDERS)))]
    for name, p in BranchingModel().named_parameters():
        unit = next((each for each in modules if name.startswith(f"{each}.")), THE_REST)
        if p.requires_grad:
            found.setdefault(unit, []).append(name)
    return found


def names_in(zero, model) -> dict[str, list[str]]:
    """Return {unit: the names of its parameters} of an engine; units are named after modules."""
    modules = {module: name or THE_REST for name, module in model.named_modules()}
    names = {p: name for name, p in model.named_parameters()}
    return {modules[module]: [names[p] for p in unit.parameters]
            for module, unit in zero.units.items()}  # fmt: skip


def weights_of(units, model) -> dict[str, torch.Tensor]:
    """Return {unit: all its numbers as one flat tensor}, and those that are not trained."""
    tensors, trained = tensors_of(model), set().union(*units.values())
    units = units | {"what is not trained": [name for name in tensors if name not in trained]}
    return {unit: torch.cat([tensors[name].detach().flatten().double() for name in names])
            for unit, names in units.items()}  # fmt: skip


@cache
def one_process(n, optimizer, backwards):
    """Return the last step of one process: weights before and after it, and slopes.

    slopes  {unit: (backwards, places, numbers)}, which add up to the gradient
    """
    with torch.random.fork_rng(devices=()):
        units, (model,) = unit_names(), equal_models(1, BranchingModel)
    ps = [model.get_parameter(name) for names in units.values() for name in names]
    stepper = OPTIMIZERS[optimizer](ps)
    for step, count in enumerate(backwards, 1):
        before = weights_of(units, model)
        slopes = torch.stack([
            torch.stack([slope_of(ps, loss_of_place(model, step, number, k, n)) for k in range(n)])
            for number in range(count or 1)
        ])  # fmt: skip
        for p, slope in zip(ps, slopes.sum((0, 1)).split([p.numel() for p in ps])):
            p.grad = slope.view_as(p)
        stepper.step()
    sizes = [len(before[unit]) for unit in units]
    slopes = dict(zip(units, slopes.split(sizes, dim=-1)))
    return SimpleNamespace(before=before, slopes=slopes, wanted=weights_of(units, model))


def slope_of(parameters, loss):
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([x.flatten() for x in found])


# ---- On a rank ---


class Optimizers:
    """A maker of optimizers, which records them and the gradients that their steps find."""

    def __init__(self, name):
        self.make, self.made, self.steps = OPTIMIZERS[name], [], []

    def __call__(self, parameters):
        self.made.append(self.make(parameters))
        self.made[-1].register_step_pre_hook(self.record_gradients)
        return self.made[-1]

    def record_gradients(self, optimizer, *_):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.steps.append({p: None if p.grad is None else p.grad.clone() for p in parameters})

    def count_state_numbers(self) -> int:
        """Return the count of numbers in the optimizers' states, without step counts."""
        states = [state for optimizer in self.made for state in optimizer.state.values()]
        values = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
        return sum(x.numel() for x in values if x.ndim)


def train_on_rank(answer, group, case, watching=None):
    """Return the findings of the last step of a training run, and what it has left.

    case.args  the optimizer, and the number of backwards before each step; with 0 the shards are
               given their gradients, and update() is called
    watching   takes the model and returns a watch on its backwards
    """
    place, n, (mine,) = (
        dist.get_rank(group),
        dist.get_world_size(group),
        equal_models(1, BranchingModel),
    )
    optimizers, watch = Optimizers(case.args[0]), watching and watching(mine)
    before = [p.detach().clone() for p in mine.parameters()]
    for p in mine.parameters():
        p.data += place  # only rank 0 has the weights that all ranks must start with
    zero = answer(mine, optimizers, [mine.norm, *mine.branches], group)
    if not close(list(mine.parameters()), before):
        what = "the weights are not rank 0's before the first step"
        raise Rejection(what, 'first: check("{{start_equal}}")')
    if watch:
        watch.follow(zero)
    units = names_in(zero, mine)
    for step, backwards in enumerate(case.args[1], 1):
        optimizers.steps.clear()
        for number in range(backwards):
            (n * loss_of_place(mine, step, number, place, n)).backward()
            if watch:
                watch.end_backward(f"step {step}, backward {number + 1}")
        if backwards:
            zero.step()
            continue
        slopes = one_process(n, case.args[0], case.args[1][:step]).slopes
        for unit, of in zip(zero.units.values(), slopes.values()):
            unit.shard.grad = part_of(of.sum((0, 1)), n, place)
        zero.update()
    found = leftovers(optimizers, zero, mine)
    if not backwards:
        return found | {"update": weights_of(units, mine)}
    return found | steps_in(optimizers, zero, units) | {"weights": weights_of(units, mine)}


def steps_in(optimizers, zero, units):
    """Return the number of surplus optimizer steps, and the gradients that the first step finds."""
    shards, more = [unit.shard for unit in zero.units.values()], len(optimizers.steps) - 1
    if more < 0 or set(optimizers.steps[0]) != set(shards):
        return {"count": more}  # no step, or one on tensors other than the shards
    gradients = {unit: optimizers.steps[0][shard] for unit, shard in zip(units, shards)}
    without = [unit for unit, gradient in gradients.items() if gradient is None]
    return {"count": more, "without": without, "gradients": gradients}


def leftovers(optimizers, zero, model):
    """Return the gradients that are left, the number of copied parameters, and the state's size.

    left    (owner, whether it is more than zeros) of each gradient that is left
    copies  number of parameters that are no views of their unit's flat tensor
    kept    numbers in the optimizer's state per number of the shards
    """
    units = zero.units.values()
    owners = [*model.named_parameters(), *(("a shard", unit.shard) for unit in units)]
    left = [(name, bool(p.grad.any())) for name, p in owners if p.grad is not None]
    memory = lambda x: x.untyped_storage().data_ptr()  # noqa: E731
    copies = [p for unit in units for p in unit.parameters if memory(p) != memory(unit.flat)]
    kept = optimizers.count_state_numbers() / sum(unit.shard.numel() for unit in units)
    return {"left": left, "copies": len(copies), "kept": kept}
