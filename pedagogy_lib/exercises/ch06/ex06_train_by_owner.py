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
from ..kit.one_process import FEATURES, batch_of
from ..kit.refused import Refused
from ..kit.trials import ranks_text
from .broken_zero import FRESH, MIXES, Maker, train_alone

ROUTES = ("abc", "ac", "abc", "b", "abc")  # the layers that each step uses
STEPS = range(1, len(ROUTES) + 1)


class Switched(nn.Module):
    """Layers of which a batch uses some: the first column of its inputs tells which."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(FEATURES, FEATURES, bias=False) for _ in range(3))
        self.head = nn.Linear(FEATURES, 1)
        self.double()
        source = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=source)

    def forward(self, inputs):
        switches, x = int(inputs[0, 0]), inputs[:, 1:]
        for number, layer in enumerate((self.a, self.b, self.c)):
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
    """After 1, 2, … steps: the weights, and for which of them it has optimizer state."""
    found, batches = {"held": {}}, batches_of(dist.get_rank())
    for steps in STEPS:
        model, maker = Switched(), Maker(*case.args)
        with patch.object(builtins, "hash", partial(need_no_name, weights_of(model), hash)):
            answer(model, F.mse_loss, batches[:steps], maker)
        found[f"weights {steps}"] = weights_of(model)
        found["held"][steps] = [
            name
            for name, p in model.named_parameters()
            if any(optimizer.state.get(p) for optimizer in maker.made)
        ]
    return found


def need_no_name(names, hash_of, x):
    """In place of hash()."""
    if isinstance(x, str) and x in names:
        raise Refused(f"the owner depends on hash({x!r})", (
            "hash() of a text is another number in each process, here by chance the same: under "
            "torchrun the ranks would not agree on who the owner is"
        ))  # fmt: skip
    return hash_of(x)


# ---- What is right, and what is not ---


def slopes_of(rank, parameters, step):
    inputs, targets = batches_of(rank)[step]
    outputs = functional_call(Switched(), dict(zip(weights_of(Switched()), parameters)), inputs)
    return torch.autograd.grad(F.mse_loss(outputs, targets), parameters, allow_unused=True)


@cache
def trained(n, optimizer, **how):
    start = weights_of(Switched())
    steps = train_alone(start.values(), slopes_of, n, len(ROUTES), optimizer, **how)
    return [dict(zip(start, after)) for after in steps]


def right(trial, place, steps):
    return trained(trial.n, *trial.case.args)[steps - 1]


def mistakes(trial, place, steps):
    wanted, first = right(trial, place, steps), weights_of(Switched())
    train = partial(trained, trial.n, *trial.case.args)

    def known(rank):
        """What a rank has trained, and the old weights of all others."""
        held = trial[rank].held[steps]
        return {name: (wanted if name in held else first)[name] for name in wanted}

    ends = {
        "each rank has followed its own gradient: they differ, and so do the weights now":
            train(mix=OF_RANK[place]),
        **{why: train(mix=mix) for why, mix in MIXES.items()},
        "a layer that is not used in a step has no gradient in it, not one of zeros: an optimizer "
        "that has a state moves a parameter on zeros, too, and counts the step. Who puts zeros "
        "there?": train(unused=torch.zeros_like),
        FRESH: train(fresh=True),
    }  # fmt: skip
    return {
        "it never changes, on any rank: it is not updated, or overwritten by what it was before. "
        "Who has the new numbers is who has to send them": known(0),
        "its owner has updated it, and nobody tells the others": known(place),
        **{why: of_steps[steps - 1] for why, of_steps in ends.items()},
    }


OF_RANK = [lambda owner, of, k=k: of[k] for k in range(3)]
ONE_OWNER = "the owner alone is to have the optimizer's state for a parameter"


def need_owners(trial, steps):
    """Raise `Wrong` if some ranks, and not all, have a state for the same parameter."""
    held = [of.held[steps] for of in trial]
    for name in sorted(set().union(*held)):
        owners = [rank for rank in range(trial.n) if name in held[rank]]
        if len(owners) > 1 and not all(of == held[0] for of in held):
            raise Wrong(
                str(trial.case),
                f"after {layers_of(steps)} {ranks_text(owners)} have optimizer state for {name}",
                f"{ONE_OWNER}. Here that of some steps may be on one rank, and that of others on "
                "another",
            )


def layers_of(steps) -> str:
    return f"steps with the layers {', '.join(ROUTES[:steps])}"


def need_shared(trial):
    """Raise `Wrong` unless each rank has some of the states, and none has all."""
    held = [of.held[len(ROUTES)] for of in trial]
    counts = f"parameters with state on each rank: {', '.join(str(len(of)) for of in held)}"
    if all(of == held[0] for of in held):
        raise Wrong(str(trial.case), "every rank has optimizer state for all parameters",
                    f"the weights are right, but nothing is saved: {ONE_OWNER}. It comes into "
                    "being in the first step() with a gradient")  # fmt: skip
    if not all(held):
        why = "the ranks are to own parameters in turn: so each has about as many"
        raise Wrong(str(trial.case), counts, why)
    return f"{trial.case}: {counts}"


def facts_of(steps):
    return [
        partial(need_owners, steps=steps),
        Equals(f"weights {steps}", partial(right, steps=steps), partial(mistakes, steps=steps),
               f"after {layers_of(steps)} the weight", otherwise=CARRIED if steps > 1 else ""),
    ]  # fmt: skip


CARRIED = (
    "the steps before were right: what does this step take over from them, and what is lost or "
    "left over? Think of the optimizer's state, and of gradients"
)

EXERCISE = RankExercise(
    "6.6",
    "train_by_owner",
    cases=[
        At(World(2), ("SGD with momentum",), ", SGD with momentum"),
        At(World(3), ("Adam",), ", Adam"),
    ],
    work=try_owners,
    facts=[*(fact for steps in STEPS for fact in facts_of(steps)), need_shared],
    told=f"after each of {len(ROUTES)} steps the weights of one process",
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
