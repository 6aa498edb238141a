"""A stage of ZeRO trained beside one process, and judged: for the checks of 6.4 and 6.7."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit.differences import first_difference
from ..kit.models import SAMPLES, WIDTH, EveryKind, equal_models, loss_of, share_of, state_of
from ..kit.refused import Refused
from ..kit.worlds import World
from .ex03_reduce_gradients import part_of

RATE = 0.5
OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=RATE),  # in which a factor shows, as it does not in Adam
    "Adam": partial(torch.optim.Adam, lr=0.05),
}


# ---- What is trained -------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A training.

    backwards  how many come before each step
    by_hand    whether we give the shards their gradients, and call update() alone
    """

    world: World
    optimizer: str
    backwards: tuple[int, ...]
    by_hand: bool = False

    def __str__(self):
        return f"{self.world}{self.what}"

    @property
    def what(self):
        if self.by_hand:
            return f", {self.optimizer}, update() alone"
        return f", {self.optimizer}, steps of {', '.join(map(str, self.backwards))} backwards"


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


def sum_of(slopes) -> dict:
    return {name: sum(of[name] for of in slopes) for name in slopes[0]}


# ---- On a rank -------------------------------------------------------------------------------


class Watch:
    """What else is looked at while a model is trained: nothing, in stage 1."""

    def __init__(self, model):
        self.model = model

    def follow(self, zero):
        """Called when there is a `zero`."""

    def end_backward(self, where):
        """Called after each backward."""


class Optimizers:
    """Makes optimizers, and knows what they have kept and found."""

    def __init__(self, name):
        self.make, self.made = OPTIMIZERS[name], []
        self.in_vain = []  # of each step, whether there were no gradients

    def __call__(self, parameters):
        self.made.append(self.make(parameters))
        self.made[-1].register_step_pre_hook(self.before_step)
        return self.made[-1]

    def before_step(self, optimizer, *_):
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        self.in_vain.append(all(gradient is None for gradient in found))

    def kept(self) -> int:
        """How many numbers their states have; the step count of each parameter does not count."""
        states = [state for optimizer in self.made for state in optimizer.state.values()]
        values = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
        return sum(x.numel() for x in values if x.ndim)


def train_on_rank(answer, group, plan, watching=Watch):
    """What became of a model in each step, and of one that one process has trained."""
    mine, alone = equal_models(2, Forked)
    place, optimizers = dist.get_rank(group), Optimizers(plan.optimizer)
    for p in mine.parameters():
        p.data += place  # the first one's weights are everybody's
    watch = watching(mine)
    zero = answer(mine, optimizers, [mine.norm, *mine.branches], group)
    watch.follow(zero)
    if any(not close(old, new) for old, new in zip(alone.parameters(), mine.parameters())):
        raise Refused("the weights are not rank 0's before the first step", 'first: check("3.4")')
    by_itself = OPTIMIZERS[plan.optimizer](alone.parameters())
    steps = [take_step(plan, number, zero, watch, alone, by_itself, group)
             for number in range(len(plan.backwards))]  # fmt: skip
    shards = sum(unit.shard.numel() for unit in zero.units.values())
    own = {"shards": shards, "kept": optimizers.kept(), "in_vain": optimizers.in_vain}
    return own | {"steps": steps}


def take_step(plan, step, zero, watch, alone, by_itself, group):
    place, n, mine = dist.get_rank(group), dist.get_world_size(group), watch.model
    slopes = [[slopes_of(alone, step, number, k, n) for k in range(n)]
              for number in range(plan.backwards[step])]  # fmt: skip
    mean, before = sum_of([sum_of(of_places) for of_places in slopes]), state_of(mine)
    if plan.by_hand:
        give_shards(zero, mine, mean, place, n)
        zero.update()
    else:
        for number in range(plan.backwards[step]):
            (n * loss_of_place(mine, step, number, place, n)).backward()
            watch.end_backward(f"step {step + 1}, backward {number + 1}")
        zero.step()
    for name, p in alone.named_parameters():
        p.grad = mean.get(name)
    by_itself.step()
    return {
        "before": before,
        "after": state_of(mine),
        "wanted": state_of(alone),
        "mean": mean,
        "last": sum_of(slopes[-1]),
        "own": [sum_of([of_places[k] for of_places in slopes]) for k in range(n)],
        "owner": owners(zero, mine, n),
        "left": gradients_left(zero, mine),
        "apart": sum(not is_view(p, unit) for unit in zero.units.values() for p in unit.parameters),
    }


def is_view(p, unit) -> bool:
    return p.untyped_storage().data_ptr() == unit.flat.untyped_storage().data_ptr()


def give_shards(zero, model, mean, place, n):
    """Everybody's part of a gradient, as if the units were reduced."""
    names = {id(p): name for name, p in model.named_parameters()}
    for unit in zero.units.values():
        flat = torch.cat([mean[names[id(p)]].flatten() for p in unit.parameters])
        unit.shard.grad = part_of(flat, n, place)


def owners(zero, model, n):
    """{name: the place that owns each of its elements}."""
    names, found = {id(p): name for name, p in model.named_parameters()}, {}
    for unit in zero.units.values():
        sizes = [p.numel() for p in unit.parameters]
        owner = torch.arange(sum(sizes)) // -(-sum(sizes) // n)
        for p, part in zip(unit.parameters, owner.split(sizes)):
            found[names[id(p)]] = part.view(p.shape)
    return found


def gradients_left(zero, model) -> list[tuple[str, bool]]:
    """Who has a gradient, and whether it is more than zeros."""
    shards = [("a shard", unit.shard) for unit in zero.units.values()]
    return [(name, bool(p.grad.any())) for name, p in [*model.named_parameters(), *shards]
            if p.grad is not None]  # fmt: skip


# ---- Judging ---------------------------------------------------------------------------------

KEPT_SHARDS = (
    "the gradients of the shards are still there, and those of the next step would be added to "
    "them: self.optimizer.zero_grad() after its step"
)
KEPT_ZEROS = (
    "a tensor of zeros takes as much memory as the gradient did: None takes none, and zero_grad() "
    "leaves it"
)
KEPT_WHOLE = "after a step nobody needs them any more: reduce_gradients(unit) lets go of them"
COPIES = (
    "the model is in memory twice: the parameters are to stay views into unit.flat. Gather into "
    "unit.chunks, which are views of the same memory"
)
WHOLE_STATE = (
    "the optimizer's state is what stage 1 is about: each rank has it for its own shards, and for "
    "nothing else. It is made of unit.shard of each unit"
)
BY_HAND = (
    "step() is right, update() by itself is not. Stage 2 calls it when shards have their "
    "gradients already: it steps, lets go of these, and gathers"
)


def judge_training(plan, found):
    """Raise `Wrong` unless all have one process's weights after each step, and no gradients."""
    for number, of_places in enumerate(zip(*(of["steps"] for of in found))):
        for place, step in enumerate(of_places):
            where = f"rank {place}, step {number + 1}: "
            for name, wanted in step["wanted"].items():
                if not close(step["after"][name], wanted):
                    what = f"{where}{name} {first_difference(step['after'][name], wanted)}"
                    raise Wrong(str(plan), what, why_weights(plan, number, found))
            if step["left"]:
                names = ", ".join(sorted({name for name, _ in step["left"]}))
                what = f"{where}the weights are right, but there are still gradients: of {names}"
                raise Wrong(str(plan), f"{what:.200}", why_left(step["left"]))
            if step["apart"]:
                what = f"{where}the weights are right, but {step['apart']} parameters are copies"
                raise Wrong(str(plan), what, COPIES)
    for place, of in enumerate(found if plan.optimizer == "Adam" else []):
        if of["kept"] > 2 * of["shards"]:
            what = f"rank {place}: the optimizer keeps {of['kept']:,} numbers; "
            raise Wrong(str(plan), f"{what}twice its shards are {2 * of['shards']}", WHOLE_STATE)


def why_left(left) -> str:
    if not any(more_than_zeros for _, more_than_zeros in left):
        return KEPT_ZEROS
    return KEPT_WHOLE if any(name != "a shard" for name, _ in left) else KEPT_SHARDS


def why_weights(plan, number, found) -> str:
    """The misconception that leads to the weights that all places have after a step."""
    if plan.by_hand:
        return BY_HAND
    if len(found[0]["in_vain"]) > len(plan.backwards):
        return TWO_STEPS
    steps = [of["steps"][number] for of in found]
    for why, guess in guesses_at_weights(plan, number, steps).items():
        if all(close(step["after"][name], guess(place, step, name))
               for place, step in enumerate(steps) for name in step["mean"]):  # fmt: skip
            return why_still(found, number) if why == STILL else why
    if all(is_only_own(place, step) for place, step in enumerate(steps)):
        return TOO_EARLY if later_ones_move(found) else NOT_GATHERED
    return ""


def guesses_at_weights(plan, number, steps):
    """{sentence: (place, step, name) -> weights}. With Adam, a factor does not tell itself."""
    if plan.optimizer == "Adam":
        return {STILL: lambda place, step, name: step["before"][name]}
    n, backwards = len(steps), plan.backwards[number]
    along = lambda slope: (  # noqa: E731
        lambda place, step, name: step["before"][name] - RATE * slope(step, name)
    )
    return {
        STILL: along(lambda step, name: 0 * step["mean"][name]),
        "the gradient is divided by how many backwards there were. The gradients of several add "
        "up; who wants a mean divides the loss":
            along(lambda step, name: step["mean"][name] / backwards),
        "the step follows the sum of all ranks' gradients; asked is their mean":
            along(lambda step, name: n * step["mean"][name]),
        "the gradient is divided by n twice: reduce_gradients gives the mean already":
            along(lambda step, name: step["mean"][name] / n),
        "every part follows its owner's own gradient: reduce the units first":
            along(own_of_owner),
        "the step follows the gradient of the last backward alone: those before it are lost":
            along(lambda step, name: step["last"][name]),
    }  # fmt: skip


STILL = "nothing has moved"
TWO_STEPS = "the optimizer makes more than one step in a step(): update() makes it"
NOT_GATHERED = (
    "every rank has updated its own part, and has the old ones of all others: gather the chunks of "
    "each unit after the optimizer's step. all_gather_ring(unit.chunks, unit.group)"
)
TOO_EARLY = (
    "the others' parts are a step behind: they are gathered before the optimizer's step, when "
    "there is nothing new yet"
)


def own_of_owner(step, name):
    slopes = torch.stack([own[name] for own in step["own"]]) * len(step["own"])
    return slopes.gather(0, step["owner"][name][None])[0]


def is_only_own(place, step) -> bool:
    """Whether what others own is as it was before, and the own part is not."""
    others = {name: step["owner"][name] != place for name in step["mean"]}
    still = all(close(step["after"][n][of], step["before"][n][of]) for n, of in others.items())
    return still and all(close(step["after"][n][~of], step["wanted"][n][~of])
                         for n, of in others.items())  # fmt: skip


def later_ones_move(found) -> bool:
    """Whether in a later step something changes on a rank that another one owns."""
    return any(
        not close(step["after"][name][others], step["before"][name][others])
        for place, of in enumerate(found)
        for step in of["steps"][1:]
        for name, owner in step["owner"].items()
        for others in [owner != place]
    )


def why_still(found, number) -> str:
    if not found[0]["in_vain"]:
        return "the optimizer has made no step: self.optimizer.step()"
    if any(found[0]["in_vain"]):
        return (
            "the optimizer has found no gradients: its step comes when the shards have theirs, "
            "and before they are let go of"
        )
    return "the optimizer has made its steps, and the weights are the old ones again"
