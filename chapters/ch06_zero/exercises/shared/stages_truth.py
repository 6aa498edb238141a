"""The right results for stages.py, and the results of known mistakes."""

from functools import partial

import torch

from coursekit.kit import GROUP, Equals, Holds, RankCase, World, Wrong, never

from ..reduce_gradients.cases import part_of
from ..reduce_gradients.truth import GLOO
from .broken_zero_truth import MIXES
from .stage_training import one_process
from .stages import WHAT

HEADERS = 0.01  # margin for headers, as a share of the bytes


def steps_of(world, optimizer, *backwards):
    """Return a case with so many backwards before each step; 0 gives the shards their gradients."""
    counts = ", ".join(map(str, backwards))
    what = f"backwards in its steps: {counts}" if any(backwards) else "update() alone"
    return RankCase(world, (optimizer, backwards), f", {optimizer}, {what}")


CASES = [
    steps_of(World(2), "SGD", 1),
    steps_of(World(2), "SGD", 1, 3),  # 3 is neither the number of ranks nor 1
    steps_of(World(3), "Adam", 2, 1, 1),
    steps_of(World(1), "Adam", 1, 2),
    steps_of(GROUP, "Adam", 1, 1),
    RankCase(World(4), (), ", what is sent"),
]


def names_found(case) -> tuple[str, ...]:
    """Return the names of the findings that a case has if no fact objects."""
    if not case.args:
        return ("models",)
    return ("weights",) if any(case.args[1]) else ("update",)


def sends(trial, most, why):
    """Raise `Wrong` if a rank sends (n-1)/n of the model too many times.

    most  {part of WHAT: the allowed number of times}
    why   {(part, the number of times that were sent) or part: diagnosis}
    """
    for part, count in most.items() if hasattr(trial[0], "models") else ():
        models = max(of_rank[part] for of_rank in trial.collect_values("models"))
        times = models / (1 - 1 / trial.n)
        if times > count + max(count, 1) * HEADERS:
            what = f"{WHAT[part]} sends {models:.2f} models, expected {count * (1 - 1 / trial.n):g}"
            told = why.get((part, round(times, 1)), why[part])
            is_gloo = "reduce_scatter" in trial[0].names[part]
            raise Wrong(str(trial.case), what, GLOO if is_gloo else told)


def train_reference(trial):
    return one_process(trial.n, *trial.case.args)


def shards_of(trial, place, of_slopes=lambda slopes: slopes.sum((0, 1))):
    """Return {unit: a place's shard of its gradient}.

    of_slopes  makes a flat gradient from a unit's slopes, (backwards, places, numbers)
    """
    slopes = train_reference(trial).slopes
    return {unit: part_of(of_slopes(of), trial.n, place) for unit, of in slopes.items()}


def wrong_gradients(trial, place):
    shards = partial(shards_of, trial, place)
    return {
        **{why: shards(lambda of, mix=mix: mix(place, trial.n * of.sum(0)))
           for why, mix in MIXES.items()},
        "the gradient is divided by how many backwards there were. The gradients of several add "
        "up; who wants a mean divides the loss": shards(lambda of: of.sum((0, 1)) / len(of)),
        "the step follows the gradient of the last backward alone: those before it are lost":
            shards(lambda of: of[-1].sum(0)),
    }  # fmt: skip


def wrong_weights(trial, place):
    right, n = train_reference(trial), trial.n

    def units(of_chunks):
        """Return the weights if of_chunks makes them from old and new chunks, (n, shard) each."""
        found = dict(right.wanted)
        for unit in right.slopes:
            both = right.before[unit], right.wanted[unit]
            chunks = (torch.stack([part_of(flat, n, k) for k in range(n)]) for flat in both)
            found[unit] = of_chunks(*chunks).flatten()[: len(both[0])]
        return found

    one_is_new = (
        "But each chunk is new on its owner alone, and an old one on all others: everybody takes "
        "it from its owner, which is an all-gather"
    )
    return {
        "the optimizer has made its step, and the weights are the old ones again": right.before,
        "every rank has updated its own part, and has the old ones of all others: gather the "
        "chunks of each unit after the optimizer's step, when they are new":
            units(lambda old, new: torch.where((torch.arange(n) == place)[:, None], new, old)),
        f"the parameters of all ranks are averaged. {one_is_new}":
            units(lambda old, new: ((n - 1) * old + new) / n),
        f"the parameters of all ranks are added up. {one_is_new}":
            units(lambda old, new: (n - 1) * old + new),
    }  # fmt: skip


def right_weights(trial, place):
    return train_reference(trial).wanted


def need_no_gradients(trial):
    """Raise `Wrong` if any gradients are left after a step."""
    for place, left in enumerate(trial.collect_values("left") or ()):
        names = {name for name, _ in left}
        if not any(more_than_zeros for _, more_than_zeros in left):
            why = "a tensor of zeros takes as much memory as the gradient did: None takes none"
        elif names == {"a shard"}:
            why = (
                "the gradients of the shards are still there, and those of the next step would be "
                "added to them. After the optimizer's step they have to go"
            )
        else:
            why = "after a step nobody needs them any more: reduce_gradients frees them"
        if names:
            what = "the weights are right, but there are still gradients: of "
            what = f"{trial.name_of_rank(place)}: {what}{', '.join(sorted(names))}"
            raise Wrong(str(trial.case), what[:200], why)


FACTS = [
    never("count", lambda more: f"the optimizer makes {1 + more} steps, expected 1",
          lambda trial, place: "the optimizer has made no step: self.optimizer.step()"
          if trial[place].count < 0 else
          "the optimizer makes more than one step in a step(): update() makes it"),
    never("without",
          lambda units: f"the optimizer finds no gradient in the shards of {', '.join(units)}",
          lambda trial, place: LOST if len(trial[place].without) < len(trial[place].gradients) else
          "the optimizer has found no gradients: its step comes when the shards have theirs, and "
          "before they are let go of"),
    Equals("gradients", shards_of, wrong_gradients,
           "the gradient that the optimizer finds in the shard"),
    Equals("weights", right_weights, wrong_weights, "the weight"),
    Equals("update", right_weights, called="the weight",
           otherwise="step() is right, update() by itself is not. Stage 2 calls it when shards "
           "have their gradients already: it steps, lets go of these, and gathers"),
    need_no_gradients,
    never("copies", "the weights are right, but {} parameters are copies",
          "the model is in memory twice: the parameters are to stay views into unit.flat. Gather "
          "into unit.chunks, which are views of the same memory"),
    Holds("kept", lambda kept: kept <= 2, "the optimizer keeps {:.2f} times what its shards have",
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
