"""Gradients of what is whole on every rank, after a backward of pieces: exercise 7.17."""

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.differences import first_difference
from ..kit.on_ranks import IN_A_GROUP
from ..kit.trials import numbers
from .pieces import SAME_CALLS, explain_in_rank, group_of_rank, told_groups

WORLDS = ((0, 1, 2),), ((0,), (1, 2))  # as groups

# ---- On a rank -------------------------------------------------------------------------------


class Halved(nn.Module):
    """A model with each kind of parameter: cut along one dim or the other, whole, tied, frozen.

    Those of `unused` and the frozen one get no gradient.
    """

    def __init__(self):
        super().__init__()
        self.places, self.letters = nn.Embedding(5, 2), nn.Embedding(4, 2)
        self.norm, self.first, self.second = nn.LayerNorm(2), nn.Linear(2, 3), nn.Linear(3, 2)
        self.output, self.places_again = nn.Linear(2, 4, bias=False), nn.Embedding(5, 2)
        self.unused, self.scale = nn.LayerNorm(2), nn.Parameter(torch.ones(()))
        self.frozen = nn.Linear(2, 2, bias=False).requires_grad_(False)
        self.output.weight, self.places_again.weight = self.letters.weight, self.places.weight
        self.letters.weight.cut_dim = self.first.weight.cut_dim = self.first.bias.cut_dim = 0
        self.second.weight.cut_dim = 1
        self.double()

    def without_gradient(self):
        return [*self.unused.parameters(), *self.frozen.parameters()]


CUT_DIMS = {name: getattr(p, "cut_dim", None) for name, p in Halved().named_parameters()}


def gradients_in(model) -> dict:
    return {name: None if p.grad is None else p.grad.detach().clone()
            for name, p in model.named_parameters()}  # fmt: skip


def try_sums(answer) -> list[dict]:
    """Of each of WORLDS: gradients before and after, and whether weights are others now."""
    found = []
    for groups in WORLDS:
        group, model = group_of_rank(groups), Halved()
        missing = {id(p) for p in model.without_gradient()}
        for salt, p in enumerate(model.parameters()):
            p.grad = None if id(p) in missing else numbers(dist.get_rank(), p.shape, p.dtype, salt)
        weights, before = [p.detach().clone() for p in model.parameters()], gradients_in(model)
        with measure(told_groups(groups)):
            answer(model, group)
        is_same = all(map(torch.equal, weights, model.parameters()))
        found.append({"before": before, "after": gradients_in(model), "same weights": is_same})
    return found


# ---- Judging ---------------------------------------------------------------------------------

WITHOUT_ONE = "some parameters have None for a gradient, on all ranks alike: pass over them"
ASKS_EACH = (
    "a parameter that is cut has the attribute `cut_dim`, and one that is whole has none: "
    'hasattr(p, "cut_dim") tells'
)
SUM_ERRORS = {
    "has no attribute 'cut_dim'": ASKS_EACH,
    "NoneType": WITHOUT_ONE,
    "a leaf Variable": "it is the gradients that are added up, p.grad, not the parameters",
}


def examine_sums(answer):
    first = told_groups(WORLDS[0])
    explain = explain_in_rank(SUM_ERRORS, SAME_CALLS)
    run = try_on_ranks(first, try_sums, answer, world_size=3, explain=explain)
    for number, groups in enumerate(WORLDS):
        case = told_groups(groups)
        everybody = [of_rank[number] for of_rank in run.values]
        for members in groups:
            judge_sums(case, members, everybody)
        names = [name for name, of in everybody[0]["before"].items() if of is not None]
        cut = sum(map(is_cut, names))
        yield f"{case}: {len(names) - cut} gradients are sums, {cut} of cut parameters are own"
    yield judge_cost(f"cost, {first}", run[first], run.values[0][0]["before"])


def judge_sums(case, members, everybody):
    """Raise `Wrong` unless the ranks of a group have the right gradients, and the old weights."""
    found = [everybody[rank] for rank in members]
    before, after = ([of[when] for of in found] for when in ("before", "after"))
    wanted = {name: wanted_of(name, before) for name in CUT_DIMS}
    for place, (rank, of) in enumerate(zip(members, found)):
        where = f"{case}, rank {rank}"
        if not of["same weights"]:
            raise Wrong(where, "a parameter has changed", "only gradients are to be added up")
        for name, gradients in wanted.items():
            got = of["after"][name]
            if not same_or_zeros(got, gradients[place], name):
                what = f"the gradient of {name} {first_difference(got, gradients[place])}"
                raise Wrong(where, what, why_sums(before, after, wanted, everybody))


def wanted_of(name, before) -> list:
    """The gradient of a parameter on each rank."""
    own = [of[name] for of in before]
    if own[0] is None or is_cut(name):
        return own
    return [torch.stack(own).sum(0)] * len(own)


def same_or_zeros(got, wanted, name) -> bool:
    """Zeros are as good as None; but a frozen parameter has no gradient."""
    if wanted is None and got is not None and "frozen" not in name:
        return not got.any()
    return close(got, wanted)


def why_sums(before, after, wanted, everybody) -> str:
    """The misconception that gives these gradients on all ranks of a group."""
    if any(got is None for of in after for name, got in of.items() if wanted[name][0] is not None):
        return (
            "a gradient has gone. The sum belongs in p.grad; dist.all_reduce puts it into the "
            "tensor that it gets, and returns None"
        )
    if any(of["frozen.weight"] is not None for of in after):
        return "a frozen parameter has no gradient, and is to get none"
    for why, guess in guesses_at_sums(before, everybody).items():
        if all(close(after[place][name], guess(name, place)) for name in CUT_DIMS
               for place in range(len(after)) if wanted[name][0] is not None):  # fmt: skip
            return why
    return why_left_out(before, after, wanted)


def guesses_at_sums(before, everybody) -> dict:
    """{misconception: (name, place) -> the gradient that it gives}"""
    n, own = len(before), lambda name, place: before[place][name]
    total = lambda name: sum(of[name] for of in before)  # noqa: E731
    of_world = lambda name: sum(of["before"][name] for of in everybody)  # noqa: E731
    dims = CUT_DIMS

    def among(is_meant, result, otherwise=own):
        return lambda name, place: result(name) if is_meant(name) else otherwise(name, place)

    return {
        "nothing has changed. dist.all_reduce adds up in place; a function that returns the sum "
        "leaves p.grad as it is": own,
        "a mean is not what is missing: each rank has seen a piece of the context, and the loss "
        "of all of it is one. Its gradient is the sum":
            among(lambda name: dims[name] is None, lambda name: total(name) / n),
        "the gradients of parameters that are cut are added up, too. Each rank has its own part "
        'of these, and the gradient of it is complete: not hasattr(p, "cut_dim")':
            among(lambda name: True, total),
        "parameters that are cut along dim 0 are added up, too: 0 counts as False. Ask for the "
        'attribute: hasattr(p, "cut_dim")': among(lambda name: not dims[name], total),
        "it is the other way round: the cut ones are complete, and the whole ones are added up":
            among(lambda name: dims[name] is not None, total),
        "places.weight is summed twice: two modules have it, and model.parameters() gives it once":
            among(lambda name: dims[name] is None,
                  lambda name: total(name) * (n if "places" in name else 1)),
        "these are rank 0's gradients: a broadcast copies, and does not add up":
            among(lambda name: dims[name] is None, lambda name: before[0][name]),
        IN_A_GROUP: among(lambda name: dims[name] is None, of_world),
    }  # fmt: skip


def why_left_out(before, after, wanted) -> str:
    """Some of the whole ones are not added up, or not on all ranks."""
    if all(close(after[0][name], wanted[name][0]) for name in CUT_DIMS):
        return "rank 0 alone has the sums. All ranks go on with them: an all-reduce is needed"
    wrong = [name for name in CUT_DIMS if wanted[name][0] is not None
             and not all(close(of[name], g) for of, g in zip(after, wanted[name]))]  # fmt: skip
    if any(map(is_cut, wrong)):
        return f"wrong are {', '.join(wrong)}: the cut ones are to stay as they are"
    if all(close(new[name], old[name]) for new, old in zip(after, before) for name in wrong):
        return (
            f"not added up are {', '.join(wrong)}. Neither names nor kinds of layers tell what is "
            "whole: norms are, biases after a sum, the places' embedding. What is cut has cut_dim"
        )
    return ""


def judge_cost(case, block, gradients) -> str:
    """Exactly, by the calls."""
    whole = sum(g.nbytes for name, g in gradients.items() if g is not None and not is_cut(name))
    n = len(block.calls)
    best = 2 * (n - 1) * whole / n
    padding = sum(p.nbytes for p in Halved().without_gradient()) * 2 * (n - 1) / n
    sent = max(sum(call.sent_bytes for call in calls) for calls in block.calls)
    if sent > best + padding:
        what = f"a rank sends {sent} bytes; all-reduces of these gradients send {best:.0f}"
        raise Wrong(case, what, SENT_MORE)
    return f"{case}: {sent} bytes from each rank, for {whole} bytes of whole gradients"


def is_cut(name) -> bool:
    return CUT_DIMS[name] is not None


SENT_MORE = (
    "the numbers are right, but more is sent: gradients of cut parameters need not travel, and an "
    "all-reduce sends less than everybody's gradients to everybody"
)


EXERCISE = Exercise(
    "7.17", "sum_partial_gradients", examine_sums,
    (
        "Which parameters has this rank seen with a piece of the context alone? And of which "
        "has it a part, and has seen the whole context with that?",
        'What is cut has the attribute cut_dim, which may be 0: hasattr(p, "cut_dim"). All '
        "others are whole.",
        "Go through model.parameters(). Pass over what is cut, and over gradients that are "
        "None; dist.all_reduce adds up the others in place, with the group.",
    ),
    lab="sequence_parallel",
)  # fmt: skip
