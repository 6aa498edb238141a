"""The right results for units_in_memory.py, and the results of known mistakes."""

import torch

from coursekit.kit import Equals, complains, never

from .units_in_memory import NEW_STORAGE


def slopes_are(flat, told):
    """Return a fact about `slope`.

    flat  takes a trial; returns the contents of flat and the shapes of its parameters
    told  beginning of the sentence about a wrong gradient
    """

    @complains
    def fact(trial):
        numbers, ((_, columns), *_) = flat(trial)
        wanted = numbers[: 2 * columns].view(2, columns).sum(0)
        for place, of in enumerate(trial):
            if not torch.equal(of.slopes, wanted):
                yield f"{trial.name_of_rank(place)}: {told} {of.slopes.tolist()}", NEW_STORAGE

    return fact


def shard_stays(values):
    """Return facts about the findings of `look`; `values` takes a trial and a place."""
    return [
        never("replaced", "unit.shard is another object now",
              "the optimizer steps on the parameter that was there: leave the object in its place"),
        never("inside", "unit.shard is a view into flat now",
              "the shard needs memory of its own: if it lies in flat, it goes when flat's memory "
              "goes"),
        never("lost", "the shard has no memory any more",
              "the shard has to stay: it is this rank's part of the parameters, and nobody else "
              "has it. flat's memory alone goes"),
        Equals("shard", values, called="the shard",
               otherwise="the optimizer alone changes a shard: flat is filled from it, not it from "
               "flat"),
    ]  # fmt: skip
