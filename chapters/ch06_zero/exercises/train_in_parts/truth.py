"""The right results, and the results of known mistakes."""

from math import ceil

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong
from coursekit.kit.diagnoses import kind_of

from ..shared.broken_zero_truth import FRESH, MIXES, train_alone
from .cases import gradient_of, start_of


def train(trial, padding=0, sizes=None, **how):
    """Train in one process and return the final numbers.

    padding  number of zeros before the numbers, treated as if they were numbers
    sizes    sizes of the parts, if they are not equally long
    """
    length, optimizer, steps = trial.case.args
    each = sizes or ceil(length / trial.n)

    def slopes(rank, parts, step):
        whole = torch.cat(parts)
        gradient = gradient_of(rank, length, whole[:length], step)
        return F.pad(gradient, (0, len(whole) - length)).split(each)

    start = F.pad(start_of(length), (padding, 0)).split(each)
    return torch.cat(train_alone(start, slopes, trial.n, steps, optimizer, **how))[:length]


def mistakes(trial, place):
    length, right = trial.case.args[0], train(trial)
    each, start = ceil(length / trial.n), start_of(length)
    return {
        "either the optimizer finds no gradient, or its steps do not reach what is returned. "
        "all_gather fills the tensors in its list: are they views into the flat tensor, or who "
        "puts them together?": start,
        "each rank has the new numbers of its own part alone: after the last step, who tells the "
        "others?":
            torch.where(torch.arange(length) // each == place, right, start),
        "that is with padding: cut it off at the end": F.pad(right, (0, -length % trial.n)),
        **{why: train(trial, mix=mix) for why, mix in MIXES.items()},
        "all but the last numbers are right. These, the length % n that are left over when n ranks "
        "share evenly, follow the sum of the gradients: what is divided by n?":
            train(trial, sizes=(length - length % trial.n, length % trial.n),
                  mix=lambda left_over, of: sum(of) / (1 if left_over else len(of))),
        "the last numbers, the length % n that are left over when n ranks share evenly, are here "
        "as they were in the beginning. Some rank has updated them: does it keep them to itself?":
            torch.where(torch.arange(length) < length - length % trial.n, right, start),
        "the zeros stand before the numbers, so that all are at wrong places: for gradient_of(), "
        "and in what is returned. Padding comes at the end":
            train(trial, padding=-length % trial.n),
        FRESH: train(trial, fresh=True),
    }  # fmt: skip


def need_all_moved(trial):
    """Raise `Wrong` if some numbers, but not all, are unchanged on all ranks."""
    found, start = trial.collect_values("values"), start_of(trial.case.args[0])
    if any(kind_of(got) != kind_of(start) for got in found):
        return
    still = [k for k in range(len(start)) if all(got[k] == start[k] for got in found)]
    if 0 < len(still) < len(start):
        which = f"numbers {', '.join(map(str, still))} (counted from 0)"
        what = f"{len(still)} of {len(start)} have never changed: {which}"
        raise Wrong(str(trial.case), what, "the others have moved. Whose are these?")


NOT_N_PARTS = "there have to be n parts: chunk() and split() may make fewer of few numbers, or more"
