"""Stages 1 and 2 of ZeRO, for the checks of 6.4 and 6.7: cases, facts, and what is sent."""

from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ...course.checking import Wrong
from ...measuring.recorder import measure, traffic_in
from ..kit import GROUP, At, Equals, Holds, World, never
from .ex03_reduce_gradients import GLOO, part_of
from .sharded_training import OPTIMIZERS, train_on_rank

LAYERS, FEATURES, BACKWARDS = 6, 201, 2  # of a model whose bytes are looked at
HEADERS = 0.01  # of the bytes


def steps_of(world, optimizer, *backwards):
    """A case: so many backwards before each step. With 0 we give the shards their gradients."""
    what = f"steps of {', '.join(map(str, backwards))} backwards" if any(backwards) else "update()"
    return At(world, (optimizer, backwards), f", {optimizer}, {what}")


CASES = [
    steps_of(World(2), "SGD", 1, 2),
    steps_of(World(3), "Adam", 2, 1, 1),
    steps_of(World(1), "Adam", 1, 2),
    steps_of(GROUP, "Adam", 1, 1),
    steps_of(World(4), "Adam", 1, 2),
    At(World(4), (), ", what is sent"),
]


# ---- What a step sends ---


def work(answer, group, case, **watching):
    on_rank = train_on_rank if case.args else cost_on_rank
    return on_rank(answer, group, case, **watching)


def cost_on_rank(answer, group, case, **watching):
    """How many models a rank sends in several backwards, in a step, and in an update alone."""
    model = nn.Sequential(*(nn.Linear(FEATURES, FEATURES) for _ in range(LAYERS))).double()
    zero = answer(model, OPTIMIZERS["Adam"], list(model), group)
    dist.barrier(group)
    for _ in range(BACKWARDS):
        loss = model(torch.ones(1, FEATURES, dtype=torch.float64)).square().mean()
        with measure("backward"):
            loss.backward()
    with measure("step"):
        zero.step()
    for unit in zero.units.values():
        unit.shard.grad = torch.ones_like(unit.shard)
    with measure("update"):
        zero.update()
    padded = sum(unit.flat.nbytes for unit in zero.units.values())
    sent = {part: traffic_in(part) for part in WHAT}
    names = {part: {call.name for call in calls} for part, (calls, *_) in sent.items()}
    return {"names": names, "models": {part: sent[part][1] / padded for part in sent}}


WHAT = {
    "backward": f"in {BACKWARDS} backwards together, a rank",
    "step": "in step(), a rank",
    "update": "in update() alone, a rank",
}


def sends(trial, most, why):
    """Raise `Wrong` if a rank sends more often than this (n-1)/n of the model.

    most  {part of WHAT: how often}
    why   {(part, how often it has sent that) or part: what that means}
    """
    for part, count in most.items() if hasattr(trial[0], "models") else ():
        models = max(of_rank[part] for of_rank in trial.of("models"))
        times = models / (1 - 1 / trial.n)
        if times > count + max(count, 1) * HEADERS:
            what = f"{WHAT[part]} sends {models:.2f} models, expected {count * (1 - 1 / trial.n):g}"
            told = why.get((part, round(times, 1)), why[part])
            is_gloo = "reduce_scatter" in trial[0].names[part]
            raise Wrong(str(trial.case), what, GLOO if is_gloo else told)


# ---- What is right, and what is not ---


def shards_of(trial, place, step, of_slopes):
    """{unit: a place's shard of it}; of_slopes takes (backwards, n, numbers of a unit)."""
    slopes = trial[place].steps[step].slopes
    return {part: part_of(of_slopes(of), trial.n, place) for part, of in slopes.items()}


def wrong_gradients(trial, place, step):
    n, shards = trial.n, partial(shards_of, trial, place, step)
    return {
        "the step follows the sum of all ranks' gradients; asked is their mean":
            shards(lambda of: n * of.sum((0, 1))),
        "the gradient is divided by n twice: reduce_gradients gives the mean already":
            shards(lambda of: of.sum((0, 1)) / n),
        "the gradient is divided by how many backwards there were. The gradients of several add "
        "up; who wants a mean divides the loss": shards(lambda of: of.sum((0, 1)) / len(of)),
        "every part follows its owner's own gradient: reduce the units first":
            shards(lambda of: n * of[:, place].sum(0)),
        "the step follows the gradient of the last backward alone: those before it are lost":
            shards(lambda of: of[-1].sum(0)),
    }  # fmt: skip


def wrong_weights(trial, place, step):
    right, n = trial[place].steps[step], trial.n

    def units(of_chunks):
        """of_chunks takes the old chunks of a unit, and the new ones: (n, shard)."""
        found = dict(right.wanted)
        for part in right.slopes:
            both = right.before[part], right.wanted[part]
            chunks = (torch.stack([part_of(flat, n, k) for k in range(n)]) for flat in both)
            found[part] = of_chunks(*chunks).flatten()[: len(both[0])]
        return found

    return {
        "the optimizer has made its steps, and the weights are the old ones again": right.before,
        TOO_EARLY if others_move(trial) else NOT_GATHERED:
            units(lambda old, new: torch.where((torch.arange(n) == place)[:, None], new, old)),
        f"the parameters of all ranks are averaged. {ONE_IS_NEW}":
            units(lambda old, new: ((n - 1) * old + new) / n),
        f"the parameters of all ranks are added up. {ONE_IS_NEW}":
            units(lambda old, new: (n - 1) * old + new),
    }  # fmt: skip


ONE_IS_NEW = (
    "But each chunk is new on its owner alone, and an old one on all others: everybody takes it "
    "from its owner, which is an all-gather"
)
NOT_GATHERED = (
    "every rank has updated its own part, and has the old ones of all others: gather the chunks of "
    "each unit after the optimizer's step. all_gather_ring(unit.chunks, unit.group)"
)
TOO_EARLY = (
    "the others' parts are a step behind: they are gathered before the optimizer's step, when "
    "there is nothing new yet"
)


def others_move(trial) -> bool:
    """Whether rank 0 gets something new of what others own, in any step; if there are any."""
    first, last = trial[0].steps[1].before, getattr(trial[0], f"weights {len(trial[0].steps)}")
    return trial.n == 1 or any(
        not close(part_of(last[part], trial.n, k), part_of(first[part], trial.n, k))
        for part in trial[0].steps[1].slopes
        for k in range(1, trial.n)
    )


def why_count(trial, place, step) -> str:
    if getattr(trial[place], f"count {step}"):
        return "the optimizer makes more than one step in a step(): update() makes it"
    return "the optimizer has made no step: self.optimizer.step()"


def why_left(trial, place, step) -> str:
    left = getattr(trial[place], f"left {step}")
    if not any(more_than_zeros for _, more_than_zeros in left):
        return (
            "a tensor of zeros takes as much memory as the gradient did: None takes none, and "
            "zero_grad() leaves it"
        )
    if any(name != "a shard" for name, _ in left):
        return "after a step nobody needs them any more: reduce_gradients(unit) lets go of them"
    return (
        "the gradients of the shards are still there, and those of the next step would be added to "
        "them: self.optimizer.zero_grad() after its step"
    )


def facts_of(step):
    wanted = lambda trial, place: trial[place].steps[step].wanted  # noqa: E731
    after = f"after step {step} the weight"
    return [
        Holds(f"count {step}", lambda count: count == 1,
              f"in step {step} the optimizer makes {{}} steps, expected 1",
              partial(why_count, step=step)),
        never(f"without {step}", f"in step {step} the optimizer finds no gradient in the shards of "
              "{}", "the optimizer has found no gradients: its step comes when the shards have "
              "theirs, and before they are let go of"),
        Equals(f"gradients {step}",
               partial(shards_of, step=step, of_slopes=lambda of: of.sum((0, 1))),
               partial(wrong_gradients, step=step),
               f"the gradient in step {step} that the optimizer finds in the shard"),
        Equals(f"weights {step}", wanted, partial(wrong_weights, step=step), after),
        Equals(f"update {step}", wanted, called=after,
               otherwise="step() is right, update() by itself is not. Stage 2 calls it when shards "
               "have their gradients already: it steps, lets go of these, and gathers"),
        never(f"left {step}", lambda left: "the weights are right, but there are still gradients: "
              f"of {', '.join(sorted({name for name, _ in left}))}"[:150],
              partial(why_left, step=step)),
        never(f"copies {step}", "the weights are right, but {} parameters are copies",
              "the model is in memory twice: the parameters are to stay views into unit.flat. "
              "Gather into unit.chunks, which are views of the same memory"),
    ]  # fmt: skip


FACTS = [
    *(fact for step in (1, 2, 3) for fact in facts_of(step)),
    Holds("kept", lambda kept: kept[0] <= 2 * kept[1],
          lambda kept: f"the optimizer keeps {kept[0]} numbers; twice its shards are {2 * kept[1]}",
          "the optimizer's state is what stage 1 is about: each rank has it for its own shards, "
          "and for nothing else. It is made of unit.shard of each unit"),
]  # fmt: skip
ERRORS = {
    "leaf Variable that requires grad": "the shard is a parameter, which autograd watches over: "
    "write into unit.chunks, which share its memory",
    "NoneType": "what is None here? A shard has no gradient before its unit is reduced",
}
LOST = (
    "every rank has to reduce all units, and to gather all, in the same order: a unit of which it "
    "has no gradient, too"
)
