"""Gradients of what is whole on every rank, after a backward of pieces."""

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ..kit import GROUP, At, Equals, RankExercise, World, answering, never
from ..kit.counted import Counted
from ..kit.requests import all_waited
from ..kit.trials import numbers, turned
from ..kit.values import VIEW
from .pieces import SAME_CALLS

# ---- On a rank ---


class Halved(nn.Module):
    """A model with each kind of parameter: cut along one dim or the other, whole, tied, frozen.

    Those of `unused` and the frozen one get no gradient.
    """

    def __init__(self):
        super().__init__()
        self.places, self.letters = nn.Embedding(5, 2), nn.Embedding(4, 2)
        self.unused, self.scale = nn.LayerNorm(2), nn.Parameter(torch.ones(()))
        self.norm, self.first, self.second = nn.LayerNorm(2), nn.Linear(2, 3), nn.Linear(3, 2)
        self.output, self.places_again = nn.Linear(2, 4, bias=False), nn.Embedding(5, 2)
        self.frozen = nn.Linear(2, 2, bias=False).requires_grad_(False)
        self.output.weight, self.places_again.weight = self.letters.weight, self.places.weight
        self.letters.weight.cut_dim = self.first.weight.cut_dim = self.first.bias.cut_dim = 0
        self.second.weight.cut_dim = 1
        self.double()


CUT_DIMS = {name: getattr(p, "cut_dim", None) for name, p in Halved().named_parameters()}
SHAPES = {name: p.shape for name, p in Halved().named_parameters()}
CASES = [At(World(3)), At(World(2)), At(GROUP)]
WITHOUT = ("unused.weight", "unused.bias", "frozen.weight")


def gradients_in(model) -> dict:
    grads = {name: p.grad for name, p in model.named_parameters()}
    return {name: None if g is None else g.clone() for name, g in grads.items()}


def sum_on_rank(answer, group, case):
    model = Halved()
    for name, p in model.named_parameters():
        p.grad = gradient_of(name, dist.get_rank(group), case)
    weights, before = [p.detach().clone() for p in model.parameters()], gradients_in(model)
    with answering(), all_waited():
        answer(model, group)
    after = gradients_in(model)
    return {
        "after": after, "frozen": after["frozen.weight"] is not None,
        "filled": [name for name in WITHOUT[:2] if after[name] is not None],
        "changed": not all(map(torch.equal, weights, model.parameters())),
        "gone": [name for name, of in before.items() if of is not None and after[name] is None],
    }  # fmt: skip


def gradient_of(name, place, case) -> torch.Tensor | None:
    """What a rank has in the beginning."""
    if name in WITHOUT:
        return None
    gradient = numbers(place, SHAPES[name], torch.float64, list(SHAPES).index(name)) / 3
    return turned(gradient) if is_turned(case, name) else gradient


def is_turned(case, name) -> bool:
    """Whether a gradient is not contiguous; in the first case they all are."""
    return case != CASES[0] and len(SHAPES[name]) > 1


# ---- What is right, and what is not ---


def is_whole(name) -> bool:
    return CUT_DIMS[name] is None


def sums(trial, place, is_meant=is_whole, result=sum) -> dict:
    """The rank's own gradients; of those that are meant, the result of all ranks'."""
    every = {name: [gradient_of(name, k, trial.case) for k in range(trial.n)] for name in CUT_DIMS}
    return {name: result(of) if is_meant(name) and name not in WITHOUT else of[place]
            for name, of in every.items()}  # fmt: skip


def wrong_sums(trial, place):
    if trial.case.is_group:
        return {}
    n, right = trial.n, sums(trial, place)
    own = {name: gradient_of(name, place, trial.case) for name in CUT_DIMS}
    of_rank_0 = trial[place].after if place and not close(trial[place].after, right) else own
    return {
        "nothing has changed. dist.all_reduce adds up in place; a function that returns the sum "
        "leaves p.grad as it is": own,
        "a mean is not what is missing: each rank has seen a piece of the context, and the loss of "
        "all of it is one. Its gradient is the sum":
            sums(trial, place, is_whole, lambda every: sum(every) / n),
        "the gradients of parameters that are cut are added up, too. Each rank has its own part of "
        'these, and the gradient of it is complete: not hasattr(p, "cut_dim")':
            sums(trial, place, lambda name: True),
        "parameters that are cut along dim 0 are added up, too: 0 counts as False. Ask for the "
        'attribute: hasattr(p, "cut_dim")': sums(trial, place, lambda name: not CUT_DIMS[name]),
        "it is the other way round: the cut ones are complete, and the whole ones are added up":
            sums(trial, place, lambda name: not is_whole(name)),
        "places.weight is summed twice: two modules have it, and model.parameters() gives it once":
            right | {"places.weight": n * right["places.weight"]},
        "these are rank 0's gradients: a broadcast copies, and does not add up":
            sums(trial, place, is_whole, lambda every: every[0]),
        "what comes after a parameter without a gradient is not summed: pass over that one alone":
            sums(trial, place, lambda name: is_whole(name) and name in before_unused()),
        "rank 0 alone has the sums. All ranks go on with them: an all-reduce is needed":
            of_rank_0 if place else right,
    } | forgotten(trial, place, own, right) | left_out(trial, place, own, right)  # fmt: skip


def forgotten(trial, place, own, right) -> dict:
    """Only where some are not contiguous: the others were right before."""
    names = [name for name in CUT_DIMS if is_whole(name) and is_turned(trial.case, name)
             and name not in WITHOUT]  # fmt: skip
    return {
        f"the gradient of {', '.join(names)} is not contiguous, so contiguous() or flatten() "
        "returns a copy. The sum is in that copy, and has to go back into p.grad":
            right | {name: own[name] for name in names},
    } if names else {}  # fmt: skip


def before_unused() -> list[str]:
    return list(CUT_DIMS)[: list(CUT_DIMS).index("unused.weight")]


def left_out(trial, place, own, right) -> dict:
    """What is to be said of some that are not added up on any rank, or should not be."""
    wrong = [name for name in CUT_DIMS
             if not all(close(of.after[name], sums(trial, k)[name])
                        for k, of in enumerate(trial))]  # fmt: skip
    names = ", ".join(wrong)
    if not all(map(is_whole, wrong)):
        return {f"wrong are {names}: the cut ones are to stay as they are": trial[place].after}
    return {
        f"not added up are {names}. Neither names nor kinds of layers tell what is whole: norms "
        "are, biases after a sum, the positions' embedding. What is cut has cut_dim":
            right | {name: own[name] for name in wrong},
    } if wrong else {}  # fmt: skip


def bytes_of_sums(trial):
    """Zeros may travel for what has no gradient."""
    each = {name: p.nbytes for name, p in Halved().named_parameters() if is_whole(name)}
    return 2 * (trial.n - 1) * sum(each.values()) / trial.n


EXERCISE = RankExercise(
    "7.18",
    "sum_partial_gradients",
    lab="sequence_parallel",
    cases=CASES,
    work=sum_on_rank,
    facts=[
        never("changed", "a parameter has changed", "only gradients are to be added up"),
        never("gone", lambda names: f"{names[0]} has no gradient any more",
              "the sum belongs in p.grad; dist.all_reduce puts it into the tensor that it gets, "
              "and returns None"),
        never("frozen", "a frozen parameter has a gradient now",
              "a frozen parameter has no gradient, and is to get none"),
        never("filled", lambda names: f"{names[0]} had None, and has a gradient now",
              "None stays None: an optimizer passes over it. With zeros it would go on moving the "
              "parameter, by momentum or weight decay"),
        Equals("after", sums, wrong_sums, "the gradient"),
        Counted(bytes_of_sums, "all-reduces of whole gradients send",
                "more is sent: gradients of cut parameters need not travel, and an all-reduce "
                "sends less than everybody's gradients to everybody"),
    ],
    told="gradients of whole parameters are sums, those of cut ones are each rank's own",
    errors={
        "view size is not compatible": VIEW,
        "has no attribute 'cut_dim'": "a parameter that is cut has the attribute `cut_dim`, and "
        'one that is whole has none: hasattr(p, "cut_dim") tells',
        "NoneType": "some parameters have None for a gradient, on all ranks alike: pass over them",
        "a leaf Variable": "it is the gradients that are added up, p.grad, not the parameters",
    },
    lost=SAME_CALLS,
    hints=(
        "Which parameters has this rank seen with a piece of the context alone? And of which "
        "has it a part, and has seen the whole context with that?",
        'What is cut has the attribute cut_dim, which may be 0: hasattr(p, "cut_dim"). All '
        "others are whole.",
        "Go through model.parameters(). Pass over what is cut, and over gradients that are "
        "None; dist.all_reduce adds up the others in place, with the group.",
    ),
)  # fmt: skip
