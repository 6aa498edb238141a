"""A program of ZeRO's stage 1 with a bug: a flat tensor in parts, some of which nobody has.

The truth is one process that follows the mean of all ranks' gradients.
"""

from functools import partial
from math import ceil

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World, never
from ..kit.differences import kind_of
from ..kit.outcomes import plain
from .broken_zero import FRESH, MIXES, Maker, train_alone

ROUNDS = (1, 4)  # steps


def case_of(length, n, optimizer):
    return At(World(n), (length, optimizer), f", {length} numbers, {optimizer}")


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
    length, optimizer = case.args
    found = {"changed": False}
    for steps in ROUNDS:
        values, maker = start_of(length), Maker(optimizer)
        got = answer(values, partial(gradient_of, dist.get_rank(), length), maker, steps)
        groups = [group for optimizer in maker.made for group in optimizer.param_groups]
        largest = max((sum(p.numel() for p in group["params"]) for group in groups), default=0)
        found["changed"] |= not torch.equal(values, start_of(length))
        found["all"] = largest if largest >= length >= 2 * dist.get_world_size() else 0
        found[f"values {steps}"] = plain(got)
    return found


def train(trial, steps, padding=0, **how):
    """One process: the numbers after some steps; with zeros before them, as if they were some."""
    length, optimizer = trial.case.args
    each = ceil(length / trial.n)

    def slopes(rank, parts, step):
        whole = torch.cat(parts)
        gradient = gradient_of(rank, length, whole[:length], step)
        return F.pad(gradient, (0, len(whole) - length)).split(each)

    start = F.pad(start_of(length), (padding, 0)).split(each)
    return torch.cat(train_alone(start, slopes, trial.n, steps, optimizer, **how)[-1])[:length]


def mistakes(trial, place, steps):
    length, right = trial.case.args[0], train(trial, steps)
    each, start = ceil(length / trial.n), start_of(length)
    return {
        "either the optimizer finds no gradient, or its steps do not reach what is returned. "
        "all_gather fills the tensors in its list: are they views into the flat tensor, or who "
        "puts them together?": start,
        "each rank has the new numbers of its own part alone: who tells the others?":
            torch.where(torch.arange(length) // each == place, right, start),
        "that is with padding: cut it off at the end": F.pad(right, (0, -length % trial.n)),
        **{why: train(trial, steps, mix=mix) for why, mix in MIXES.items()},
        "the zeros stand before the numbers, so that all are at wrong places: for gradient_of(), "
        "and in what is returned. Padding comes at the end":
            train(trial, steps, padding=-length % trial.n),
        FRESH: train(trial, steps, fresh=True),
    }  # fmt: skip


def need_all_moved(trial, steps):
    """Raise `Wrong` if some numbers, and not all, are on all ranks what they were before."""
    found, start = trial.of(f"values {steps}"), start_of(trial.case.args[0])
    if any(kind_of(got) != kind_of(start) for got in found):
        return
    still = [k for k in range(len(start)) if all(got[k] == start[k] for got in found)]
    if 0 < len(still) < len(start):
        after = f"after {steps} step" + ("" if steps == 1 else "s")
        which = f"numbers {', '.join(map(str, still))} (counted from 0)"
        raise Wrong(
            str(trial.case),
            f"{after}, {len(still)} of {len(start)} have never changed: {which}",
            "the others have moved. Whose are these?",
        )


def facts_of(steps):
    return [
        partial(need_all_moved, steps=steps),
        Equals(f"values {steps}", lambda trial, place: train(trial, steps),
               partial(mistakes, steps=steps), f"after {steps} steps, what is returned"),
    ]  # fmt: skip


NOT_N_PARTS = "there have to be n parts: chunk() and split() may make fewer of few numbers, or more"

EXERCISE = RankExercise(
    "6.5",
    "train_in_parts",
    cases=[
        case_of(8, 2, "SGD with momentum"),
        case_of(11, 3, "Adam"),
        case_of(10, 4, "SGD with momentum"),
        case_of(5, 4, "Adam"),
        case_of(2, 3, "SGD with momentum"),
    ],
    work=try_parts,
    facts=[
        *(fact for steps in ROUNDS for fact in facts_of(steps)),
        never("changed", "the argument `values` has been changed",
              "whoever calls the function may need it as it was. The program took a copy, and "
              "F.pad takes one"),
        never("all", "an optimizer has {} numbers, which is all of them",
              "the numbers are right, but each rank updates all of them, with all of the "
              "optimizer's state. In stage 1 it has an optimizer for its own part alone"),
    ],
    told=f"after {ROUNDS[-1]} steps the numbers of one process, on every rank",
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
