"""The right results, and the results of known mistakes."""

from math import prod

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong

from ..reduce_gradients.cases import part_of
from ..shared.broken_zero_truth import MIXES
from .cases import tensors_for


def gradients_of(trial):
    """Return the gradient of each rank as a flat tensor."""
    each = (tensors_for(rank, trial.case.args) for rank in range(trial.n))
    return [torch.cat([x.flatten() for x in tensors]) for tensors in each]


def right(trial, place):
    return part_of(sum(gradients_of(trial)) / trial.n, trial.n, place)


def mistakes(trial, place):
    n, gradients = trial.n, gradients_of(trial)
    mean = sum(gradients) / n
    each = -(-len(mean) // n)
    each_alone = [part_of(x, n, place) for x in mean.split([prod(s) for s in trial.case.args])]
    return {
        **{why: part_of(mix(place, gradients), n, place) for why, mix in MIXES.items()},
        "each gradient is padded, and cut into parts, by itself: a part of all together is "
        "ceil(numbers / n) long, and has its padding at the end of the last": torch.cat(each_alone),
        "the padding is at the beginning, so all is shifted: it belongs at the end. F.pad takes "
        "(before, after)":
            F.pad(mean, (each * n - len(mean), 0))[place * each : (place + 1) * each],
        "with padding all parts are equally long; leave it there": mean[place * each :][:each],
        "that is all of it, with padding; each rank keeps a part":
            F.pad(mean, (0, each * n - len(mean))),
        "that is all of it; each rank keeps a part": mean,
        **{f"this is rank {k}'s part": part_of(mean, n, k) for k in range(n) if k != place},
    }  # fmt: skip


def need_freed(trial):
    """Raise `Wrong` if anything besides the part stays in memory, and name everything that does."""
    for place, of in enumerate(trial):
        what, why = [], []
        if of.kept > of.part.nbytes:
            what.append(
                f"the returned part has {of.part.nbytes} bytes, and keeps {of.kept} bytes alive"
            )
            why.append(A_VIEW)
        if of.left:
            gradients = "a `.grad`" if len(of.left) == 1 else f"{len(of.left)} gradients"
            what.append(f"the parameters still have {gradients}, of {sum(of.left)} bytes")
            why.append(STILL_THERE if sum(of.left) else EMPTY)
        if what:
            both = "the numbers are right, as before; the memory still is not"
            what = f"{trial.name_of_rank(place)}: {'; and '.join(what)}"
            raise Wrong(str(trial.case), what, why[0] if len(why) == 1 else both)


STILL_THERE = (
    "a gradient of zeros has as many bytes as any other. The parameter itself has to let go of it: "
    "a name for it in the function, or `del` of such a name, changes nothing in the parameter"
)

EMPTY = (
    "they are empty now, but they are there, in another shape than their parameters. A parameter "
    "without a gradient has None in its `.grad`"
)

A_VIEW = (
    "a tensor's memory lives as long as anything looks into it, whatever names are deleted. What "
    "does the returned tensor look into? (contiguous() copies nothing that is contiguous already)"
)
