"""A program of ZeRO's stage 1 with a bug: a flat tensor in parts, some of which nobody has.

The truth is one process that follows the mean of all ranks' gradients.
"""

from functools import partial
from math import ceil

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.units import counted
from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World, never
from ..kit.differences import kind_of
from ..kit.outcomes import plain
from .broken_zero import FRESH, MIXES, Maker, train_alone

FINDS_A_BUG = True


def case_of(length, n, optimizer, steps):
    what = f", {length} numbers, {optimizer}, {counted(steps, 'step')}"
    return At(World(n), (length, optimizer, steps), what)


def start_of(length):
    return torch.linspace(1, 2, length, dtype=torch.float64)


def gradient_of(rank, length, values, step):
    """A rank's gradient; each of its numbers depends on all values."""
    if values.shape != (length,):
        raise ValueError(f"gradient_of() was given {len(values)} numbers, and takes {length}")
    source = torch.Generator().manual_seed(100 * rank + step)
    draw = torch.randn(length, length + 1, generator=source, dtype=torch.float64)
    return draw[:, 0] + draw[:, 1:] @ values.detach() / length


def try_parts(answer, group, case):
    length, optimizer, steps = case.args
    values, maker, rank = start_of(length), Maker(optimizer), dist.get_rank()
    got = answer(values, partial(gradient_of, rank, length), maker, steps)
    groups = [group for optimizer in maker.made for group in optimizer.param_groups]
    largest = max((sum(p.numel() for p in group["params"]) for group in groups), default=0)
    return {
        "values": plain(got),
        "changed": not torch.equal(values, start_of(length)),
        "all": largest if largest >= length >= 2 * dist.get_world_size() else 0,
    }


def train(trial, padding=0, sizes=None, **how):
    """One process: the numbers in the end.

    padding  zeros before them, as if they were some
    sizes    of the parts, if they are not equally long
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
    """Raise `Wrong` if some numbers, and not all, are on all ranks what they were before."""
    found, start = trial.of("values"), start_of(trial.case.args[0])
    if any(kind_of(got) != kind_of(start) for got in found):
        return
    still = [k for k in range(len(start)) if all(got[k] == start[k] for got in found)]
    if 0 < len(still) < len(start):
        which = f"numbers {', '.join(map(str, still))} (counted from 0)"
        what = f"{len(still)} of {len(start)} have never changed: {which}"
        raise Wrong(str(trial.case), what, "the others have moved. Whose are these?")


NOT_N_PARTS = "there have to be n parts: chunk() and split() may make fewer of few numbers, or more"

EXERCISE = RankExercise(
    "6.5",
    "train_in_parts",
    cases=[
        case_of(8, 2, "SGD with momentum", 1),
        case_of(11, 3, "Adam", 1),
        case_of(10, 4, "SGD with momentum", 4),
        case_of(5, 4, "Adam", 4),
        case_of(2, 3, "SGD with momentum", 2),
    ],
    work=try_parts,
    facts=[
        need_all_moved,
        Equals("values", lambda trial, place: train(trial), mistakes, "what is returned"),
        never("changed", "the argument `values` has been changed",
              "whoever calls the function may need it as it was. The program took a copy, and "
              "F.pad takes one"),
        never("all", "an optimizer has {} numbers, which is all of them",
              "the numbers are right, but each rank updates all of them, with all of the "
              "optimizer's state. In stage 1 it has an optimizer for its own part alone"),
    ],
    told="the numbers of one process, on every rank",
    errors={
        "invalid tensor size": "all_gather wants parts that are all equally long, on all ranks. Is "
        "the last one shorter? What is missing there can be filled up",
        "invalid output tensor list": NOT_N_PARTS,
        "index out of range": NOT_N_PARTS,
        "numbers, and takes": "gradient_of() takes the numbers of the model, all of them, and "
        "without padding",
    },
    lost="every rank has to make the same calls, also one whose part is only padding",
    warm=True,
    hints=(
        "Take 11 numbers and 3 ranks, and write down which numbers are in which part.",
        "What is in no part is updated by nobody. If a part has length // n numbers, what is "
        "left over? Round up instead.",
        "Then n parts are longer than `values`. Put zeros at its end, F.pad(values, (0, …)), "
        "so that all parts are equally long. The program pads the gradient already, and cuts "
        "the padding off at the end.",
    ),
)  # fmt: skip
