"""Gradients that are averaged by a hook on each of them."""

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ..kit import At, Equals, Holds, RankExercise, Sends, World, answering, never
from ..kit.one_process import (
    HIDDEN,
    LARGE,
    batch_of,
    flat,
    large_model,
    model_of,
    one_exchange,
    slopes,
)

BACKWARDS = ("the first backward", "the second, a step later", "the third, which adds to it")
FROZEN = ", the first weight frozen"


class TwoBiases(nn.Module):
    """Adds two biases; autograd passes one tensor on to both as their gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64)) for _ in range(2)
        )

    def forward(self, x):
        return x + (self.first + self.second)


BOTH_BIASES = slice(-3 * HIDDEN - 1, -HIDDEN - 1)  # of all; behind are the last layer's


# ---- On a rank ---


def run_backwards(answer, group, case):
    """For each backward: this rank's own gradients, what is in `.grad`, and what has changed."""
    (is_frozen,), rank = case.args, dist.get_rank()
    model, twin = own_model(rank, is_frozen), own_model(rank, is_frozen)
    trained = [p for p in model.parameters() if p.requires_grad]
    answer(model)
    found = {"own": {}, "gradients": {}, "late": False, "moved": 0.0}
    found["thawed"] = is_frozen and model[0].weight.requires_grad
    for number, name in enumerate(BACKWARDS):
        twin.load_state_dict(model.state_dict())
        inputs, targets = batch_of(rank, number)
        before = flat(model.parameters())
        dist.barrier()
        if rank and not (number or is_frozen):
            time.sleep(0.2)  # who does not wait for the others shows
        with answering():
            F.mse_loss(model(inputs), targets).backward()
        found["gradients"][name] = got = gradients_of(trained)
        after = flat(model.parameters())
        found["own"][name] = slopes(twin, (inputs, targets))
        dist.barrier()
        time.sleep(0.02)
        found["late"] |= not close(gradients_of(trained), got)
        if not close(after, before):
            found["moved"] = max(found["moved"], (after - before).abs().max().item())
        if number == 0:
            descend(trained)
    return found | (cost_of_large(answer, rank) if is_frozen else {})


def own_model(rank, is_frozen):
    """Other weights on each rank, so that it shows if they travel."""
    model = model_of(rank + 1).insert(1, TwoBiases())
    model[0].weight.requires_grad_(not is_frozen)
    return model


def gradients_of(parameters):
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)


@torch.no_grad()
def descend(parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter -= 0.01 * parameter.grad
            parameter.grad = None


def cost_of_large(answer, rank):
    model = large_model()
    answer(model)
    inputs, targets = batch_of(rank, 0, features=LARGE)
    loss = F.mse_loss(model(inputs), targets)
    with answering():
        loss.backward()
    return {"large_bytes": flat(model.parameters()).nbytes}


# ---- What is right, and what is not ---


def by_backward(trial, of_backward, adds=True):
    """{backward: of_backward(the mean over the ranks)}; the third has the mean of the second, too.

    of_backward  takes the backward's name and the mean over the ranks
    """
    means = {name: sum(of.own[name] for of in trial) / trial.n for name in BACKWARDS}
    found = {name: of_backward(name, mean) for name, mean in means.items()}
    if adds:
        found[BACKWARDS[2]] = found[BACKWARDS[2]] + means[BACKWARDS[1]]
    return found


def mean(trial, place):
    return by_backward(trial, lambda name, mean: mean)


def mistakes(trial, place):
    own = trial[place].own
    last = torch.arange(len(own[BACKWARDS[0]])).flip(0) == 0
    untouched = (
        "each rank still has its own gradient. What a hook does to a copy, or to a name, does not "
        "reach `.grad`; if register_hook has registered it, what it returns does"
    )
    if not any(trial.calls):
        untouched = (
            "each rank still has its own gradient, and no hook sends anything. Has one been "
            "registered? There is no gradient yet when average_in_backward is called"
        )
    return {
        "only the last parameter is averaged: a name that a loop changes is looked up when the "
        "hook runs, and has its last value by then. Each hook needs its own parameter":
            by_backward(trial, lambda name, mean: torch.where(last, mean, own[name])),
        "this is the sum over the ranks: divide by their number":
            by_backward(trial, lambda name, mean: mean * trial.n),
        "this is the mean, divided by the number of ranks once more":
            by_backward(trial, lambda name, mean: mean / trial.n),
        "this rank's own gradient is divided, and nothing has been added to it":
            by_backward(trial, lambda name, mean: own[name] / trial.n),
        "the mean is added to the rank's own gradient. It is to take its place: a hook's work is "
        "done when the gradient is there": by_backward(trial, lambda name, mean: own[name] + mean),
        "this is the mean of this backward alone: what was in `.grad` before is lost. A backward "
        "adds to it": by_backward(trial, lambda name, mean: mean, adds=False),
        untouched: by_backward(trial, lambda name, mean: own[name]),
    }  # fmt: skip


def why_two_biases(trial) -> str:
    """Where gradients are right but for those that autograd passes on as one tensor."""
    for place, of in enumerate(trial):
        for name, right in mean(trial, place).items():
            mended = of.gradients[name].clone()
            mended[BOTH_BIASES] = right[BOTH_BIASES]
            if not close(mended, right):
                return ""
    return (
        "most are right. Autograd may hand one tensor on to several parameters as their gradient, "
        "and a hook on each of them changes it again: change no argument of register_hook() in "
        "place"
    )


def told_norms(trial, place) -> str:
    right, of = mean(trial, place), trial[place]
    name = next(name for name in BACKWARDS if not close(of.gradients[name], right[name]))
    return (
        f"{trial.who(place)}, {name}: `.grad` has norm {of.gradients[name].norm():.4f}, expected "
        f"{right[name].norm():.4f}, the mean over the ranks; this rank's own has "
        f"{of.own[name].norm():.4f}"
    )


def why_moved(trial, place) -> str:
    if close(trial[place].gradients, mean(trial, place)):
        return "the gradients are right; the weights are not to be averaged, and not in a backward"
    return (
        "what travels is the parameter itself. A backward leaves the weights alone; only what it "
        "computes has to be averaged"
    )


EXERCISE = RankExercise(
    "3.13",
    "average_in_backward",
    cases=[At(World(2), (False,)), At(World(3), (True,), FROZEN)],
    work=run_backwards,
    facts=[
        never("thawed", "a parameter that was frozen is trainable now",
              "frozen parameters stay frozen: they have no gradient, and need no hook"),
        Holds("moved", lambda gap: not gap, "the backward has changed weights by up to {:.2g}",
              why_moved),
        never("late", "`.grad` changes after backward() has returned",
              "it is right a little later: backward() has returned before the exchange was over. "
              "What async_op=True begins has to be waited for"),
        Equals("gradients", mean, mistakes, otherwise=why_two_biases, tells=told_norms),
        Sends(one_exchange, "one all-reduce of all gradients is", lambda trial, times:
              f"each gradient is sent {times:.1f} times: a hook runs for one parameter, and has "
              "one gradient to average"),
    ],
    told=f"the mean gradient after {len(BACKWARDS)} backwards, one without zero_grad()",
    errors={
        "doesn't require gradient": "a parameter that is frozen (requires_grad is False) never "
        "gets a gradient, and takes no hook",
        "NoneType": "a hook runs when its own gradient is there, and this one finds None in a "
        "`.grad`. Either it looks into another parameter's: a name that a loop changes has its "
        "last value by then. Or it runs too soon: one of register_hook runs before `.grad` is "
        "filled, and gets the gradient as its argument",
    },
    lost="every rank has to make the same calls in the same order: also in hooks",
    hints=(
        "Look at what travels. What does autograd give to a post-accumulate hook as its "
        "argument: a gradient, or a parameter?",
        "When the hook runs, parameter.grad is filled. Frozen parameters take no hook.",
        "Sum up parameter.grad over the ranks, in place, then divide it.",
    ),
)  # fmt: skip
