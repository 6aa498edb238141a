"""The right results, and the results of known mistakes."""

import re

import torch

from .cases import (
    BEFORE,
    STALE,
    WEIGHTS,
    X,
    compare,
    gradients_in,
    observe_passes,
    plainly,
    slopes_of,
)


def compute_known_values(case, place) -> dict:
    if case.work is not compare:
        return {}
    forward, _, *how = case.args
    with torch.random.fork_rng(devices=[]):
        right, ones, means = (
            observe_passes(forward, plainly, slopes, *how)
            for slopes in (slopes_of, torch.ones_like, even_slopes_of)
        )
    return {
        "right_y": right["y"],
        "right": right["gradients"],
        "ones": ones["gradients"],
        "means": means["gradients"],
    }


def list_found_names(case):
    is_compared = case.work is compare
    return ("y", gradients_in(case.args[2:])) if is_compared else ("kept", "besides", "at_most")


def even_slopes_of(y):
    """Return the gradient of a mean with respect to each element of y."""
    return torch.full_like(y, 1 / max(y.numel(), 1))


def mistakes(trial, place):
    of = trial[place]
    right = of.right
    wrong = {
        "it is twice the gradient of x. The x that was kept is the caller's own tensor, whose "
        ".grad the backward fills, and then what is returned is added: run the function on "
        "x.detach()": right | {X: 2 * right[X]},
        "this is the gradient of the mean of what the function returns. In a chain it is only the "
        "beginning: grad_output says how much the loss changes with each element": of.means,
        "this is the gradient of the sum of what the function returns. In a chain it is only the "
        "beginning: grad_output says how much the loss changes with each element": of.ones,
    }
    if STALE in trial.case.args:
        weights = right[WEIGHTS].where(right[WEIGHTS] == STALE, right[WEIGHTS] - STALE)
        return wrong | {
            "gradients that were there are gone: a backward adds to `.grad`, and so is this one to "
            "do": right | {WEIGHTS: weights},
        }  # fmt: skip
    return wrong | {
        "the function's weights get no gradient. torch.autograd.grad hands out what it is asked "
        "for, and puts nothing into `.grad`; torch.autograd.backward fills the .grad of all "
        "leaves": right | {WEIGHTS: None},
        "what came before this call gets no gradient: x.grad of the detached x is to be returned, "
        "for x; requires_grad_() comes before the function runs":
            right | {X: None, BEFORE: None},
    }  # fmt: skip


def describe_result(trial) -> str:
    if trial.collect_values("kept"):
        kept, plain = trial[0].kept, trial[0].plain_kept
        return f"{kept:g} inputs are kept, and nothing else; without recomputation {plain:g}"
    return "value, gradients and generator are right"


def explain(case, error) -> str:
    """Return the diagnosis if the backward starts from a sum without a graph; otherwise ""."""
    goes_back = re.search(r"\w\.(sum|mean)\(\)\.backward\(\)", str(error))
    return ONES if goes_back and "does not have a grad_fn" in str(error) else ""


ONES = (
    "the gradient of y is `grad_output`; the backward of a sum of y begins with ones. Begin with "
    "grad_output, then nothing is to be multiplied afterwards. (Autograd does not "
    "look inside of a backward: a sum that is made there has no graph.)"
)

MOVED = "the generator is not where it is without recomputation"

KEPT = (
    "nothing is computed a second time: the graph of the first run is kept, with all its "
    "activations. Keep x alone, and run the function again in the backward"
)
