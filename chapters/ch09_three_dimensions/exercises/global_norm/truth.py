"""The right results, and the results of known mistakes."""

import math

from coursekit.kit import Wrong

from ..shared.meshes import all_places
from .cases import TIED, WHOLE, gradient_of, names_at


def squares(at, names) -> float:
    gradients = [gradient_of(name, at) for name in names]
    return sum(g.pow(2).sum().item() for g in gradients if g is not None)


def sum_squares(
    sizes, few, tied_twice=False, whole_once=True, pp=None, tp=None, of_whole=1.0
) -> float:
    """Return the sum of squares over one copy of the model, or over its place `pp`, `tp` alone.

    of_whole  the factor of the squares of uncut parameters
    """
    total = 0.0
    for at in all_places(sizes):
        if at["dp"] or pp not in (None, at["pp"]) or tp not in (None, at["tp"]):
            continue
        names = names_at(at, sizes, few)
        if not tied_twice and at["pp"] == sizes["pp"] - 1 > 0 and not few:
            names.remove(TIED)
        if whole_once and at["tp"] != (tp or 0):
            names = [name for name in names if name not in WHOLE]
        whole = [name for name in names if name in WHOLE]
        total += squares(at, names) - (1 - of_whole) * squares(at, whole)
    return total


def length(trial, place):
    return math.sqrt(sum_squares(*trial.case.args[:2]))


def mistakes(trial, place):
    sizes, few, scale = trial.case.args
    places = all_places(sizes)
    at, dp, right = places[place], sizes["dp"], sum_squares(sizes, few)
    own = [sum_squares(sizes, few, pp=pp) for pp in range(sizes["pp"])]
    of_ranks = [math.sqrt(squares(each, names_at(each, sizes, few))) for each in places]
    lengths = sum(of for of, each in zip(of_ranks, places) if not each["dp"])
    return {
        "a parameter that is not cut is the same on all ranks along tp, and counts once for each "
        "of them here: let one of these ranks count it":
            math.sqrt(sum_squares(sizes, few, whole_once=False)),
        "what is not cut is the same on all ranks along tp. Half of it is right for two of them: "
        "let "
        "one of these ranks count it, however many there are":
            math.sqrt(sum_squares(sizes, few, whole_once=False, of_whole=0.5)),
        "the weight that two stages have counts twice: those in counted_elsewhere are left out":
            math.sqrt(sum_squares(sizes, few, tied_twice=True)),
        "the weight that two stages have counts twice, and what is not cut counts on each rank "
        "along tp": math.sqrt(sum_squares(sizes, few, True, False)),
        "each copy of the model has the same gradient now, and all of them are in this sum: add up "
        "within one copy, over mesh[\"pp\", \"tp\"]": math.sqrt(dp * right),
        "all ranks of the world are in this sum: each copy counts, and so does what is not cut on "
        "each rank along tp": math.sqrt(dp * sum_squares(sizes, few, whole_once=False)),
        "these are the parts of this stage alone: the other stages have gradients, too":
            math.sqrt(own[at["pp"]]),
        "these are the gradients of this rank alone: each rank finds another length, and would "
        "shorten differently": of_ranks[place],
        "this is the rank's own part without what is counted elsewhere. The others' parts belong "
        "to the same gradient": math.sqrt(sum_squares(sizes, few, pp=at["pp"], tp=at["tp"])),
        "these are the parts of all stages, but of one place along tp only: cut parameters have "
        "others there": math.sqrt(sum_squares(sizes, few, tp=at["tp"])),
        "this is the square of the length: the root comes last": right * scale,
        "lengths do not add up: their squares do": lengths,
        "in this mean each rank counts as one of several. Squares are added, there is no mean":
            math.sqrt(right / (sizes["pp"] * sizes["tp"])),
    }  # fmt: skip


def needs_few_bytes(trial):
    for place, calls in enumerate(trial.calls):
        most = max([call.tensor_bytes for call in calls], default=0)
        if most > 16:
            what = f"{trial.name_of_rank(place)} hands in {most} bytes, expected 8"
            why = "the others need one number of each rank: the sum of its squares"
        elif len(calls) > 2:
            what = f"{trial.name_of_rank(place)} communicates {len(calls)} times, expected once"
            why = "add up first what this rank has, then over the ranks, once"
        else:
            continue
        raise Wrong(f"cost, {trial.case}", f"the number is right, but {what}", why)
