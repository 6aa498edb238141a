"""The right results, and the results of known mistakes."""

from functools import cache

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong, complains, first_true
from coursekit.kit.message_costs import TOLERANCE
from coursekit.kit.reference_training import HIDDEN, batch_of, one_exchange, slopes
from pedagogy_lib.basics.closeness import close

from ..shared.large_models_truth import compute_known_layers
from .cases import BACKWARDS
from .two_biases import own_model
from .two_biases_truth import BOTH_BIASES


@cache
def gradients_known(case, place) -> dict:
    """Return a rank's own gradients in each backward and, if nothing is frozen, of large layers."""
    (is_frozen,) = case.args
    model = own_model(place, is_frozen)
    own = {name: slopes(model, batch_of(place, number)) for number, name in enumerate(BACKWARDS)}
    return {"own": own} | ({} if is_frozen else compute_known_layers(place, F.mse_loss))


def list_found(case):
    return ("grad",) if case.args[0] else ("grad", "large")


def map_backwards(trial, of_backward, adds=True):
    """Return {backward: of_backward(name, mean over the ranks)}; the second adds to a mean."""
    means = {name: sum(of.own[name] for of in trial) / trial.n for name in BACKWARDS}
    first, second = (of_backward(name, mean) for name, mean in means.items())
    return dict(zip(BACKWARDS, (first, second + adds * means[BACKWARDS[0]])))


def mean(trial, place):
    return map_backwards(trial, lambda name, mean: mean)


def mistakes(trial, place):
    own = trial[place].own
    index = torch.arange(len(own[BACKWARDS[0]]))
    is_last, is_layer = index.flip(0) == 0, index.flip(0) <= HIDDEN  # the last layer
    why_untouched = first_true({
        "each rank still has its own gradient. What a hook does to a copy, or to a name, does not "
        "reach `.grad`; if register_hook has registered it, what it returns does":
            any(trial.calls),
        "each rank still has its own gradient, and no hook sends anything. Has one been "
        "registered? There is no gradient yet when average_in_backward is called": True,
    })  # fmt: skip
    return {
        "only the last parameter is averaged: a name that a loop changes is looked up when the "
        "hook runs, and has its last value by then. Each hook needs its own "
        "parameter": map_backwards(trial, lambda name, mean: torch.where(is_last, mean, own[name])),
        "only what had come by then is averaged: the gradient of the first parameter in the list "
        "need not come last. Each gradient is averaged when it comes, by a hook of its "
        "own": map_backwards(
            trial, lambda name, mean: torch.where(is_layer | (index < HIDDEN), mean, own[name])
        ),
        "this is the sum over the ranks: divide by their number": map_backwards(
            trial, lambda name, mean: mean * trial.n
        ),
        **(
            {
                "this is the sum over the ranks, divided by 2: is their number written "
                "in?": map_backwards(trial, lambda name, mean: mean * trial.n / 2)
            }
            if trial.n != 2
            else {}
        ),
        "this is the mean, divided by the number of ranks once more": map_backwards(
            trial, lambda name, mean: mean / trial.n
        ),
        "this rank's own gradient is divided, and nothing has been added to it": map_backwards(
            trial, lambda name, mean: own[name] / trial.n
        ),
        "the mean is added to the rank's own gradient; it is to take its place": map_backwards(
            trial, lambda name, mean: own[name] + mean
        ),
        "what was in `.grad` before, a mean already, is summed over the ranks once more, and not "
        "divided: only the new gradient is": map_backwards(trial, lambda name, mean: mean, trial.n),
        "what was in `.grad` before counts twice: autograd adds to it what a hook of register_hook "
        "returns, and that is to be the mean of the new gradient alone": map_backwards(
            trial, lambda name, mean: mean, 2
        ),
        "what was in `.grad` before, a mean already, is divided once more: only the new gradient "
        "is summed over the ranks": map_backwards(trial, lambda name, mean: mean, 1 / trial.n),
        "this is the mean of this backward alone: what was in `.grad` before is lost. A backward "
        "adds to it": map_backwards(trial, lambda name, mean: mean, adds=False),
        "the first backward is averaged, and the second is not: is each hook called once, and gone "
        "then? It has to stay": map_backwards(
            trial, lambda name, mean: mean if name == BACKWARDS[0] else own[name]
        ),
        why_untouched: map_backwards(trial, lambda name, mean: own[name]),
    }


def why_two_biases(trial) -> str:
    """Diagnose gradients that are right except for those that autograd passes on as one tensor."""
    others = torch.ones_like(trial[0].own[BACKWARDS[0]], dtype=torch.bool)
    others[BOTH_BIASES] = False
    return first_true({
        "most are right. Autograd may hand one tensor on to several parameters as their gradient, "
        "and a hook on each of them changes it again: change no argument of register_hook() in "
        "place": all(close(of.grad[name][others], right[others])
                     for of in trial for name, right in mean(trial, 0).items()),
    })  # fmt: skip


def check_sent_once(trial):
    """Raise `Wrong` if gradients are right, but other collectives send them besides all-reduces."""
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
def check_early_sends(trial):
    """Complain if more than one earlier gradient is not yet sent when a gradient is ready."""
    for place, of in enumerate(trial):
        for number, begun in enumerate(of.ready):
            if begun < number - 1:
                what = f"when gradient {number + 1} is ready, {begun} of those before it travel"
                yield f"{trial.name_of_rank(place)}: the numbers are right, but {what}", (
                    "a hook averages its gradient when it is ready. What is sent at the end of the "
                    "backward cannot be hidden behind it"
                )  # fmt: skip


def describe_norms(trial, place) -> str:
    right, of = mean(trial, place), trial[place]
    name = next(name for name in BACKWARDS if not close(of.grad[name], right[name]))
    norms = [x[name].norm() for x in (of.grad, right, of.own)]
    return (
        "{}, {}: `.grad` has norm {:.4f}, expected {:.4f}, the mean over the ranks; this rank's "
        "own has {:.4f}"
    ).format(trial.name_of_rank(place), name, *norms)


def why_moved(trial, place) -> str:
    first = BACKWARDS[0]  # the second backward used other weights
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
