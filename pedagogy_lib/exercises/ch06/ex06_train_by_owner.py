"""A program of ZeRO's stage 1 with a bug, whose parameters have owners.

The truth is one process that follows the mean of all ranks' gradients, and leaves a parameter
alone in a step without a gradient for it.
"""

import builtins
from functools import cache, partial
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World
from ..kit.contributions import ranks_text
from ..kit.one_process import FEATURES, batch_of
from ..kit.refused import Refused
from .broken_zero import FRESH, MIXES, Maker, train_alone

FINDS_A_BUG = True

ROUTES = ("ac", "abc", "ac", "b", "abc")  # the layers that each step uses


class Switched(nn.Module):
    """Layers of which a batch uses some: the first column of its inputs tells which."""

    def __init__(self, layers="abc"):
        super().__init__()
        for name in layers:
            self.add_module(name, nn.Linear(FEATURES, FEATURES, bias=False))
        self.layers = [self.get_submodule(name) for name in layers]
        self.head = nn.Linear(FEATURES, 1)
        self.double()
        source = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=source)

    def forward(self, inputs):
        switches, x = int(inputs[0, 0]), inputs[:, 1:]
        for number, layer in enumerate(self.layers):
            if switches >> number & 1:
                x = x + torch.tanh(layer(x))
        return self.head(x)


def batches_of(rank):
    """For each step inputs, which say what layers they use, and targets."""
    batches = []
    for step, route in enumerate(ROUTES):
        inputs, targets = batch_of(rank, step)
        switches = torch.full((len(inputs), 1), sum(1 << "abc".index(layer) for layer in route))
        batches.append((torch.cat([switches, inputs], dim=1), targets))
    return batches


def weights_of(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


# ---- On a rank ---


def try_owners(answer, group, case):
    """The weights after so many steps, and which of them it has optimizer state for."""
    optimizer, steps, layers = case.args
    model, maker = Switched(layers), Maker(optimizer)
    with patch.object(builtins, "hash", partial(need_no_name, weights_of(model), hash)):
        answer(model, F.mse_loss, batches_of(dist.get_rank())[:steps], maker)
    names = {p: name for name, p in model.named_parameters()}
    counts = {names[p]: sum(bool(made.state.get(p)) for made in maker.made) for p in names}
    return {
        "first" if steps == 1 else "weights": weights_of(model),
        "held": [name for name in counts if counts[name]],
        "anew": [name for name in counts if counts[name] > 1],  # in several optimizers
    }


def need_no_name(names, hash_of, x):
    """In place of hash()."""
    if isinstance(x, str) and x in names:
        raise Refused(f"the owner depends on hash({x!r})", (
            "hash() of a text is another number in each process, here by chance the same: under "
            "torchrun the ranks would not agree on who the owner is"
        ))  # fmt: skip
    return hash_of(x)


# ---- What is right, and what is not ---


def slopes_of(rank, parameters, step, layers, known=None):
    """known: for each rank whose new numbers it has; it computes with the first ones of others."""
    inputs, targets = batches_of(rank)[step]
    weights = {
        name: p if known is None or name in known[rank] else first.requires_grad_()
        for p, (name, first) in zip(parameters, weights_of(Switched(layers)).items())
    }
    loss = F.mse_loss(functional_call(Switched(layers), weights, inputs), targets)
    return torch.autograd.grad(loss, list(weights.values()), allow_unused=True)


@cache
def train(n, optimizer, steps, layers, known=None, **how):
    """The weights in the end."""
    start, slopes = weights_of(Switched(layers)), partial(slopes_of, layers=layers, known=known)
    return dict(zip(start, train_alone(start.values(), slopes, n, steps, optimizer, **how)))


def right(trial, place):
    return train(trial.n, *trial.case.args)


def mistakes(trial, place):
    wanted, first = right(trial, place), weights_of(Switched(trial.case.args[-1]))
    wrong = partial(train, trial.n, *trial.case.args)

    def known(rank):
        """What a rank has trained, and the old weights of all others."""
        return {name: (wanted if name in trial[rank].held else first)[name] for name in wanted}

    return {
        "it never changes, on any rank: it is not updated, or overwritten by what it was before. "
        "Who has the new numbers is who has to send them": known(0),
        "its owner has updated it, and nobody tells the others": known(place),
        "each rank has followed its own gradient: they differ, and so do the weights now":
            wrong(mix=OF_RANK[place]),
        **{why: wrong(mix=mix) for why, mix in MIXES.items()},
        "a layer that is not used in a step has no gradient in it, not one of zeros: an optimizer "
        "that has a state moves a parameter on zeros, too, and counts the step. Who puts zeros "
        "there?": wrong(unused=torch.zeros_like),
        FRESH: wrong(fresh=True),
        "gradients are those of old weights: on each rank, weights of other owners have stayed as "
        "they were in the beginning. The next forward needs what their owners have made of them":
            wrong(known=tuple(map(tuple, trial.of("held")))),
    }  # fmt: skip


OF_RANK = [lambda owner, of, k=k: of[k] for k in range(4)]
ANEW = (
    "{} has had an optimizer, and gets a new one in a later step, without the state of the steps "
    "before"
)
ONE_OWNER = "the owner alone is to have the optimizer's state for a parameter"


def need_one_owner(trial):
    """Raise `Wrong` if some ranks, and not all, have a state for the same parameter."""
    held = trial.of("held")
    for name in sorted(set().union(*held)):
        owners = [rank for rank in range(trial.n) if name in held[rank]]
        if len(owners) > 1 and not all(of == held[0] for of in held):
            why = (
                f"{ONE_OWNER}. Here that of some steps may be on one rank, and that of others on "
                "another"
            )
            anew = next((new[0] for new in trial.of("anew") if new), None)
            why += f". Besides, {ANEW.format(anew)}" if anew else ""
            what = f"{ranks_text(owners)} have optimizer state for {name}"
            raise Wrong(str(trial.case), what, why)


def need_shared(trial):
    """Raise `Wrong` unless each rank that owns something has states, and none has all."""
    held, parameters = trial.of("held"), len(weights_of(Switched(trial.case.args[-1])))
    counts = f"parameters with state on each rank: {', '.join(str(len(of)) for of in held)}"
    if all(of == held[0] for of in held):
        what = "every rank has optimizer state for all parameters"
        raise Wrong(str(trial.case), what, (
            f"the weights are right, but nothing is saved: {ONE_OWNER}. It comes into being in the "
            "first step() with a gradient"
        ))  # fmt: skip
    if sum(map(bool, held)) < min(trial.n, parameters):
        why = "the ranks are to own parameters in turn: so each has about as many"
        raise Wrong(str(trial.case), counts, why)
    return f"{trial.case}: {counts}"


def case_of(n, optimizer, steps, layers="abc"):
    used = ["".join(filter(layers.count, route)) or "none" for route in ROUTES[:steps]]
    few = f", a model of {len(layers) + 2} parameters" * (layers != "abc")
    what = f", {optimizer}{few}, steps with the layers {', '.join(used)}"
    return At(World(n), (optimizer, steps, layers), what)


EXERCISE = RankExercise(
    "6.6",
    "train_by_owner",
    cases=[
        case_of(2, "SGD with momentum", 1),
        case_of(2, "SGD with momentum", 2),
        case_of(2, "SGD with momentum", 5),
        case_of(3, "Adam", 5),
        case_of(4, "Adam", 5, "a"),
    ],
    work=try_owners,
    found=lambda case: ("first" if case.args[1] == 1 else "weights", "held"),
    facts=[
        need_one_owner,
        Equals("first", right, mistakes, "the weight"),
        Equals("weights", right, mistakes, "the weight",
               otherwise="the steps before were right: what does this step take over from them, "
               "and what is lost or left over? Think of the optimizer's state, of gradients, and "
               "of the weights that other ranks have updated"),
        need_shared,
    ],
    told="the weights of one process",
    errors={
        "NoneType": "a parameter whose layer is not used in a step has no gradient then: its "
        "`.grad` is None",
        "a leaf Variable that requires grad": "what autograd knows of may not be changed in place: "
        "p.detach() has the same memory",
        "empty parameter list": "a rank that owns nothing needs no optimizer",
    },
    lost="every rank has to make the same calls in the same order: the owner and the others reduce "
    "and broadcast alike, and all ranks have to agree on who the owner is",
    warm=True,
    hints=(
        "As long as all layers are used in all steps, it is right. Write down for two steps, "
        "one of them without a layer in the middle, who owns which parameter.",
        "A parameter's number decides who owns it. What is it a number among?",
        "Number all parameters of the model, and leave out those without a gradient only "
        "after that.",
    ),
)  # fmt: skip
