"""Gradients that are averaged by a hook on each of them."""

import contextlib
import time
from functools import cache

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit import (
    At,
    Equals,
    Holds,
    RankExercise,
    Sends,
    World,
    answering,
    complains,
    first_true,
    never,
)
from ..kit.costs import TOLERANCE
from ..kit.one_process import HIDDEN, batch_of, flat, one_exchange, slopes
from ..kit.requests import AllRequests
from .large_models import Travels, cost_of_layers, known_of_layers, right_if_large
from .left_alone import LeftAlone, leaves_alone
from .two_biases import BOTH_BIASES, own_model

FINDS_A_BUG = True

BACKWARDS = ("the first backward", "the second, which adds to it")


# ---- On a rank ---


def run_backwards(answer, group, case):
    """For each backward: what is in `.grad`, and what has changed."""
    (is_frozen,), rank = case.args, dist.get_rank()
    model = own_model(rank, is_frozen)
    trained = [p for p in model.parameters() if p.requires_grad]
    requests, ready = AllRequests(), []
    for p in trained:  # before the answer's hooks, so that it is noted what came before
        p.register_post_accumulate_grad_hook(lambda _: ready.append(len(requests.made)))
    alone, patches = LeftAlone(model, weights=True), what_is_patched(model)
    answer(model)
    found = {"grad": {}, "late": False, "moved": 0.0, "touched": alone.changed()}
    found["thawed"] = is_frozen and model[1].weight.requires_grad
    found["patched"] = [name for name, was in patches.items()
                        if what_is_patched(model).get(name) is not was]  # fmt: skip
    for number, name in enumerate(BACKWARDS):
        batch, before = batch_of(rank, number), flat(model.parameters())
        dist.barrier()
        if rank and not (number or is_frozen):
            time.sleep(0.2)  # who does not wait for the others shows
        with answering(), requests if not number else contextlib.nullcontext():
            F.mse_loss(model(batch[0]), batch[1]).backward()
        found["grad"][name] = grad = gradients_of(trained)
        found["moved"] = max(found["moved"], (flat(model.parameters()) - before).abs().max().item())
        dist.barrier()
        time.sleep(0.02)
        found["late"] |= not close(gradients_of(trained), grad)
    found["ready"] = ready[: len(trained)]  # of the first backward
    return found | ({} if is_frozen else cost_of_backward(answer, rank))


def what_is_patched(model) -> dict:
    """What a hook does not need: the functions that everybody's backwards, and forwards, go by."""
    return {
        "torch.Tensor.backward": torch.Tensor.backward,
        "torch.autograd.backward": torch.autograd.backward,
        "model.forward": getattr(model.forward, "__func__", None),
        "the model's class": type(model),
    }


def gradients_of(parameters):
    return flat(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)


def cost_of_backward(answer, rank):
    def call(model, pieces):
        ((inputs, targets),) = pieces
        torch.autograd.backward([F.mse_loss(model(inputs), targets)])

    def prepare(model, batch):
        answer(model)
        return model

    return cost_of_layers(call, rank, prepare=prepare)


# ---- What is known of it ---


@cache
def gradients_known(case, place) -> dict:
    """A rank's own gradients in each backward; of large layers, too."""
    (is_frozen,) = case.args
    model = own_model(place, is_frozen)
    own = {name: slopes(model, batch_of(place, number)) for number, name in enumerate(BACKWARDS)}
    return {"own": own} | ({} if is_frozen else known_of_layers(place, F.mse_loss))


def found_on(case):
    return ("grad",) if case.args[0] else ("grad", "large")


# ---- What is right, and what is not ---


def by_backward(trial, of_backward, adds=True):
    """{backward: of_backward(its name, the mean over the ranks)}; the second adds to a mean."""
    means = {name: sum(of.own[name] for of in trial) / trial.n for name in BACKWARDS}
    first, second = (of_backward(name, mean) for name, mean in means.items())
    return dict(zip(BACKWARDS, (first, second + adds * means[BACKWARDS[0]])))


def mean(trial, place):
    return by_backward(trial, lambda name, mean: mean)


def mistakes(trial, place):
    own = trial[place].own
    index = torch.arange(len(own[BACKWARDS[0]]))
    is_last, is_layer = index.flip(0) == 0, index.flip(0) <= HIDDEN  # the last one
    why_untouched = first_true({
        "each rank still has its own gradient. What a hook does to a copy, or to a name, does not "
        "reach `.grad`; if register_hook has registered it, what it returns does":
            any(trial.calls),
        "each rank still has its own gradient, and no hook sends anything. Has one been "
        "registered? There is no gradient yet when average_in_backward is called": True,
    })  # fmt: skip
    return {
        "only the last parameter is averaged: a name that a loop changes is looked up when the "
        "hook runs, and has its last value by then. Each hook needs its own parameter":
            by_backward(trial, lambda name, mean: torch.where(is_last, mean, own[name])),
        "only what had come by then is averaged: the gradient of the first parameter in the list "
        "need not come last. Each gradient is averaged when it comes, by a hook of its own":
            by_backward(trial, lambda name, mean: torch.where(
                is_layer | (index < HIDDEN), mean, own[name])),
        "this is the sum over the ranks: divide by their number":
            by_backward(trial, lambda name, mean: mean * trial.n),
        **({"this is the sum over the ranks, divided by 2: is their number written in?":
                by_backward(trial, lambda name, mean: mean * trial.n / 2)} if trial.n != 2 else {}),
        "this is the mean, divided by the number of ranks once more":
            by_backward(trial, lambda name, mean: mean / trial.n),
        "this rank's own gradient is divided, and nothing has been added to it":
            by_backward(trial, lambda name, mean: own[name] / trial.n),
        "the mean is added to the rank's own gradient; it is to take its place":
            by_backward(trial, lambda name, mean: own[name] + mean),
        "what was in `.grad` before, a mean already, is summed over the ranks once more, and not "
        "divided: only the new gradient is": by_backward(trial, lambda name, mean: mean, trial.n),
        "what was in `.grad` before counts twice: autograd adds to it what a hook of register_hook "
        "returns, and that is to be the mean of the new gradient alone":
            by_backward(trial, lambda name, mean: mean, 2),
        "what was in `.grad` before, a mean already, is divided once more: only the new gradient "
        "is summed over the ranks": by_backward(trial, lambda name, mean: mean, 1 / trial.n),
        "this is the mean of this backward alone: what was in `.grad` before is lost. A backward "
        "adds to it": by_backward(trial, lambda name, mean: mean, adds=False),
        "the first backward is averaged, and the second is not: is each hook called once, and gone "
        "then? It has to stay":
            by_backward(trial, lambda name, mean: mean if name == BACKWARDS[0] else own[name]),
        why_untouched: by_backward(trial, lambda name, mean: own[name]),
    }  # fmt: skip


def why_two_biases(trial) -> str:
    """Where gradients are right but for those that autograd passes on as one tensor."""
    others = torch.ones_like(trial[0].own[BACKWARDS[0]], dtype=torch.bool)
    others[BOTH_BIASES] = False
    return first_true({
        "most are right. Autograd may hand one tensor on to several parameters as their gradient, "
        "and a hook on each of them changes it again: change no argument of register_hook() in "
        "place": all(close(of.grad[name][others], right[others])
                     for of in trial for name, right in mean(trial, 0).items()),
    })  # fmt: skip


def sent_once(trial):
    """No other collective goes with an all-reduce; looked at where the gradients are right."""
    names = {call.name for calls in trial.calls for call in calls}
    others, most = sorted(names - {"all_reduce"}), one_exchange(trial, 0)
    is_right = all(close(of.grad, mean(trial, place)) for place, of in enumerate(trial))
    if is_right and most and len(names) > len(others) > 0 and max(trial.sent_bytes) > 1.2 * most:
        raise Wrong(
            f"cost, {trial.case}",
            f"the numbers are right, but it calls dist.{others[0]} as well",
            "each gradient travels more than once: after an all-reduce all ranks have the same "
            "sum, and nothing else need be sent",
        )


@complains
def sent_at_once(trial):
    """When a gradient is ready, those before it have begun to travel; one may be late."""
    for place, of in enumerate(trial):
        for number, begun in enumerate(of.ready):
            if begun < number - 1:
                what = f"when gradient {number + 1} is ready, {begun} of those before it travel"
                yield f"{trial.who(place)}: the numbers are right, but {what}", (
                    "a hook averages its gradient when it is ready. What is sent at the end of the "
                    "backward cannot be hidden behind it"
                )  # fmt: skip


def told_norms(trial, place) -> str:
    right, of = mean(trial, place), trial[place]
    name = next(name for name in BACKWARDS if not close(of.grad[name], right[name]))
    norms = [x[name].norm() for x in (of.grad, right, of.own)]
    return (
        "{}, {}: `.grad` has norm {:.4f}, expected {:.4f}, the mean over the ranks; this rank's "
        "own has {:.4f}"
    ).format(trial.who(place), name, *norms)


def why_moved(trial, place) -> str:
    first = BACKWARDS[0]  # the second one has come with other weights
    return first_true({
        "the gradients are right; the weights are not to be averaged, and not in a backward":
            close(trial[place].grad[first], mean(trial, place)[first]),
        "the weights themselves are summed or divided. A backward leaves them alone: what it has "
        "computed, the gradient, travels, and is divided": True,
    })  # fmt: skip


def why_so_many_bytes(trial, times) -> str:
    sent = f"each gradient is sent {times:.1f} times: "
    if abs(times - round(times)) <= TOLERANCE * times:
        return (
            f"{sent}does each parameter have {times:.0f} hooks? One is enough. (Of a module in a "
            "module, both have its parameters in parameters())"
        )
    return f"{sent}a hook runs for one parameter, and has one gradient to average"


EXERCISE = RankExercise(
    "3.10",
    "average_in_backward",
    cases=[At(World(3), (False,)), At(World(2), (True,), ", the first weight frozen")],
    work=run_backwards,
    known=gradients_known,
    found=found_on,
    facts=[
        never("thawed", "a parameter that was frozen is trainable now",
              "frozen parameters stay frozen: they have no gradient, and need no hook"),
        Holds("moved", lambda gap: not gap, "the backward has changed weights by up to {:.2g}",
              why_moved),
        leaves_alone,  # of other weights, the gradients are other ones
        sent_once,
        never("late", "`.grad` changes after backward() has returned",
              "it is right a little later: backward() has returned before the exchange was over. "
              "What async_op=True begins has to be waited for"),
        Equals("grad", mean, mistakes, otherwise=why_two_biases, tells=told_norms),
        never("patched", lambda names: f"the numbers are right, and {names[0]} is another one now",
              "a hook on each parameter is enough. What all backwards go by stays as it is"),
        sent_at_once,
        right_if_large(),
        Travels(one_exchange),
        Sends(one_exchange, "one all-reduce of all gradients is", why_so_many_bytes),
    ],
    told="the mean gradient after two backwards, the second without zero_grad()",
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
