"""The right results, and the results of known mistakes."""

import torch

from ..shared.versions import LR, SCRIPTS, actions_of, input_of, loss_of, slope_of
from ..shared.versions_truth import output_of, replay_script, weights_of

KEPT = (
    "the numbers are right, but old versions stay in self.weights, all of them, for ever. It has "
    "the newest one; who is under way has an older one in self.stash"
)


def overwrite_weights(place) -> list[dict]:
    """Return the weights after each update if all versions use the same memory."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights_of(place).items()}
    totals, found = {}, []
    for kind, i, _ in actions_of(SCRIPTS[place]):
        if kind == "F":
            y = output_of(leaves, input_of(place, i))
            totals[i] = loss_of(y) if place == "last" else (y * slope_of(i)).sum()
            continue
        gradients = torch.autograd.grad(totals.pop(i), list(leaves.values()))
        for weight, gradient in zip(leaves.values(), gradients):
            weight.data -= LR * gradient
        found.append({name: w.detach().clone() for name, w in leaves.items()})
    return found


def mistakes(place):
    return {
        "these are gradients of two versions at once: autograd has kept the activations of the "
        "forward, and multiplies them by weights. A micro-batch under way, be it a single one, has "
        "stashed its weights. What stands in that memory when its backward comes? (A copy of the "
        "dictionary has the very same tensors in it)": overwrite_weights(place),
        "each gradient is used twice: two updates for one backward":
            replay_script(place, step=-2 * LR).weights,
        "the weights go the other way: a step goes against the gradient":
            replay_script(place, step=LR).weights,
        "a step is lr times the gradient": replay_script(place, step=-1.0).weights,
    }  # fmt: skip
