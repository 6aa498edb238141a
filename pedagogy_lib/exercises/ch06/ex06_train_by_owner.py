"""A program of ZeRO's stage 1 with a bug, whose parameters have owners: exercise 6.6.

The truth is one process that follows the mean of all ranks' gradients, and leaves a parameter
alone in a step without a gradient for it.
"""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.bytes_of_calls import tensors_in
from ..kit.differences import recognise
from ..kit.one_process import FEATURES, batch_of, flat, why_raised
from ..kit.trials import ranks_text
from ..kit.warming import warm_up
from .broken_zero import DIVIDED_TWICE, FRESH, OPTIMIZERS, SUMMED, Maker

OWNERS = (  # ranks, the layers that each step uses, the optimizer
    (2, ("abc", "ac", "abc", "b", "abc"), "SGD with momentum"),
    (3, ("ab", "abc", "bc", "abc", "a"), "Adam"),
)
OWNER_ERRORS = {
    "NoneType": "a parameter whose layer is not used in a step has no gradient then: its `.grad` "
    "is None",
    "a leaf Variable that requires grad": "what autograd knows of may not be changed in place: "
    "p.detach() has the same memory",
    "empty parameter list": "a rank that owns nothing needs no optimizer",
}
OWNER_HANG = (
    "every rank has to make the same calls in the same order: the owner and the others reduce and "
    "broadcast alike, and all ranks have to agree on who the owner is"
)
AS_ONE_PROCESS = (
    "a layer that is not used in a step has no gradient in it, not one of zeros: an optimizer that "
    "has a state moves a parameter on zeros, too, and counts the step. Who puts zeros there?"
)
OWNERS_OWN = "each parameter has followed its owner's own gradient: the others' are to count, too"
RANK_0 = "all have followed rank 0's gradient: those of the others are to count, too"
NO_BROADCAST = "its owner has updated it, and nobody tells the others"
DIVERGED = "the ranks have followed different gradients, or each has kept some of its own numbers"
OVERWRITTEN = (
    "it never changes, on any rank: it is not updated, or overwritten by what it was before. Who "
    "has the new numbers is who has to send them"
)
CARRIED = (
    "the steps before were right: what does this step take over from them, and what is lost or "
    "left over? Think of the optimizer's state, and of gradients"
)
EVERYWHERE = (
    "the weights are right, but nothing is saved: the owner alone is to have the optimizer's state "
    "for a parameter. It comes into being in the first step() with a gradient"
)
TWO_OWNERS = "the owner alone is to have the optimizer's state for a parameter"
ONE_OWNS_NOTHING = "the ranks are to own parameters in turn: so each has about as many"


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


def batches_of(rank, routes):
    """For each step inputs, which say what layers they use, and targets."""
    batches = []
    for step, route in enumerate(routes):
        inputs, targets = batch_of(rank, step)
        switches = torch.full((len(inputs), 1), sum(1 << "abc".index(layer) for layer in route))
        batches.append((torch.cat([switches, inputs], dim=1), targets))
    return batches


def weights_of(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def try_owners(answer, make, routes):
    """On a rank, after 1, 2, … steps: the weights, and for which of them it has how much state."""
    found, batches = [], batches_of(dist.get_rank(), routes)
    for steps in range(1, len(routes) + 1):
        model, maker = Switched(), Maker(make)
        answer(model, F.mse_loss, batches[:steps], maker)
        found.append((weights_of(model), state_bytes(model, maker.made)))
    return found


def state_bytes(model, optimizers) -> dict[str, int]:
    """{parameter: bytes of the state that these optimizers have for it}, of those that have any."""
    held = {}
    for name, parameter in model.named_parameters():
        states = [o.state[parameter] for o in optimizers if parameter in o.state]
        size = sum(x.nbytes for state in states for x in tensors_in(list(state.values())))
        held |= {name: size} if size else {}
    return held


def train_switched(n, routes, make, mix=lambda owner, slopes: sum(slopes) / len(slopes),
                   unused=lambda parameter: None, fresh=False):  # fmt: skip
    """One process: the weights after each step.

    mix     takes the number of a parameter's owner, and the gradient of each rank
    unused  gives the gradient of a parameter that has had no part in a step
    fresh   whether each step has a new optimizer
    """
    model, weights = Switched(), []
    optimizer = make(model.parameters())
    for batches in zip(*(batches_of(rank, routes) for rank in range(n))):
        slopes = list(zip(*(slopes_in(model, *batch) for batch in batches)))
        for number, (parameter, of_ranks) in enumerate(zip(model.parameters(), slopes)):
            is_used = of_ranks[0] is not None
            parameter.grad = mix(number % n, of_ranks) if is_used else unused(parameter)
        optimizer = make(model.parameters()) if fresh else optimizer
        optimizer.step()
        weights.append(weights_of(model))
    return weights


def slopes_in(model, inputs, targets):
    """The gradient of each parameter, None for one that has had no part; leaves no `.grad`."""
    loss = F.mse_loss(model(inputs), targets)
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def examine_owners(answer):
    warm_up()
    for n, routes, name in OWNERS:
        case = f"{n} ranks, {name}"
        make = OPTIMIZERS[name]
        run = try_on_ranks(case, try_owners, answer, make, routes, world_size=n,
                           explain=partial(why_raised, OWNER_ERRORS, OWNER_HANG))  # fmt: skip
        right = train_switched(n, routes, make)
        for step, wanted in enumerate(right):
            weights, held = zip(*(of_rank[step] for of_rank in run.values))
            judge_owned_weights(case, weights, held, wanted, routes[: step + 1], make)
        judge_ownership(case, held)
        yield f"{case}: after each of {len(routes)} steps the weights of one process"
        yield f"{case}: parameters with state on each rank: {counts(held)}"


def judge_owned_weights(case, weights, held, wanted, routes, make):
    off = [name for name in wanted if not all(close(mine[name], wanted[name]) for mine in weights)]
    if not off:
        return
    largest = max((mine[off[0]] - wanted[off[0]]).abs().max() for mine in weights)
    what = (
        f"after step {len(routes)} {off[0]} is off by up to {largest:.2g}. The steps have used the "
        f"layers {', '.join(routes)}"
    )
    for name in off:
        apart = [rank for rank, mine in enumerate(weights) if not close(mine[name], wanted[name])]
        if len(apart) < len(weights):
            where = f"is right on some ranks, and not on {ranks_text(apart)}"
            why = why_apart(weights, wanted, off)
            raise Wrong(case, f"after step {len(routes)} {name} {where}", why)
    raise Wrong(case, what, why_weights(weights, held, off[0], routes, make))


def why_apart(weights, wanted, off) -> str:
    is_right = lambda name: any(close(mine[name], wanted[name]) for mine in weights)  # noqa: E731
    return NO_BROADCAST if all(map(is_right, off)) else DIVERGED


def why_weights(weights, held, name, routes, make) -> str:
    """Why the parameter of this name is wrong on all ranks after the last of these steps."""
    n, got = len(weights), flat(weights[0].values())
    if torch.equal(weights[0][name], weights_of(Switched())[name]):
        return OVERWRITTEN
    if not all(close(flat(mine.values()), got) for mine in weights):
        return DIVERGED
    train = partial(train_switched, n, routes, make)
    guesses = {
        SUMMED: train(lambda owner, slopes: sum(slopes)),
        DIVIDED_TWICE: train(lambda owner, slopes: sum(slopes) / n**2),
        OWNERS_OWN: train(lambda owner, slopes: slopes[owner]),
        OWNERS_OWN + " (and it is divided by n)":
            train(lambda owner, slopes: slopes[owner] / n),
        RANK_0: train(lambda owner, slopes: slopes[0]),
        AS_ONE_PROCESS: train(unused=torch.zeros_like),
    }  # fmt: skip
    ends = {why: flat(after[-1].values()) for why, after in guesses.items()}
    fresh = {FRESH: flat(train(fresh=True)[-1].values())}
    return recognise(got, ends) or why_state(held, name) or recognise(got, fresh) or (
        CARRIED if len(routes) > 1 else ""
    )  # fmt: skip


def why_state(held, name) -> str:
    owners = owners_of(name, held)
    if len(owners) > 1:
        return (
            f"{ranks_text(owners)} have optimizer state for {name}: that of some steps is on "
            "one rank, and that of others on another"
        )
    return ""


def owners_of(name, held) -> list[int]:
    return [rank for rank, of in enumerate(held) if name in of]


def judge_ownership(case, held):
    """Raise `Wrong` unless each parameter has its state on one rank, and each rank some of it."""
    names = {name for of in held for name in of}
    if all(set(of) == names for of in held):
        each = f"{sum(held[0].values())} bytes of optimizer state, for all {len(names)} parameters"
        raise Wrong(case, f"every rank has {each}", EVERYWHERE)
    for name in sorted(names):
        owners = owners_of(name, held)
        if len(owners) > 1:
            what = f"the weights are right, but {name} has optimizer state on {ranks_text(owners)}"
            raise Wrong(case, what, TWO_OWNERS)
    if not all(held):
        what = f"parameters with optimizer state on each rank: {counts(held)}"
        raise Wrong(case, what, ONE_OWNS_NOTHING)


def counts(held) -> str:
    return ", ".join(str(len(of)) for of in held)


EXERCISE = Exercise(
    "6.6", "train_by_owner", examine_owners,
    (
        "As long as all layers are used in all steps, it is right. Write down for two steps, "
        "one of them without a layer in the middle, who owns which parameter.",
        "A parameter's number decides who owns it. What is it a number among?",
        "Number all parameters of the model, and leave out those without a gradient only "
        "after that.",
    ),
)  # fmt: skip
