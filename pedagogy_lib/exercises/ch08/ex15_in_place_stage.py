"""Versions of the weights that are all the same memory: exercise 8.15."""

from functools import partial
from types import SimpleNamespace

import torch

from ...course.checking import Exercise, Wrong, try_on_ranks
from ...course.labs import find_lab
from ..kit.refused import Refused
from .ex14_stashing_stage import STAGE_WAS_RIGHT, explain_scripts, judge_pipeline, judge_scripts
from .versions import LR, by_hand, input_of, loss_of, output_of, slope_of, try_scripts, weights_of

WORLDS = (2, 3)
NOT_A_STAGE = (
    "it is to remain a class InPlaceStage(pipedream.StashingStage); give check() the class itself"
)
NUDGE = (
    "these are gradients of two versions at once: autograd has kept the activations of the "
    "forward, and multiplies them by weights. A micro-batch under way has stashed its weights. "
    "What stands in that memory when its backward comes?"
)
NOTICED = (
    "autograd now notices that weights have changed which somebody under way still needs, and "
    "refuses. `.data` had only hidden that from it. To be told of the damage does not undo it"
)
TWICE = "each gradient is used twice: two updates for one backward"
UPHILL = "the weights go the other way: a step goes against the gradient"
NO_RATE = "a step is lr times the gradient"
KEPT = (
    "the numbers are right, but old versions stay in self.weights, all of them, for ever. It has "
    "the newest one; who is under way has an older one in self.stash"
)
ERRORS = {
    "modified by an inplace operation": NOTICED,
    "a leaf Variable that requires grad": "autograd watches over the weights: those that somebody "
    "under way still needs stay as they are, and the next version is made of new tensors",
    "does not require grad": "a new version's tensors are asked for gradients: .requires_grad_()",
    "non-leaf": "a copy of what has a history: begin with weight.detach()",
    "'pipedream' is not defined": 'run the cell with pipedream = lab("pipedream") first',
    "changed size during iteration": "a dictionary cannot change while it is gone through",
}


def examine_in_place(answer):
    if not (isinstance(answer, type) and base_of(answer)):
        raise Wrong("your class", f"check() was given {answer!r:.60}", NOT_A_STAGE)
    explain = partial(explain_scripts, ERRORS, guesses=guesses_at)
    run = try_on_ranks("one stage", try_class, answer, world_size=1, explain=explain)
    yield from judge_scripts(run.values[0], guesses_at, KEPT)
    for n in WORLDS:
        yield from judge_pipeline(answer, find_lab("pipedream"), n, STAGE_WAS_RIGHT)


def base_of(answer):
    return next((c for c in answer.__mro__[1:] if c.__name__ == "StashingStage"), None)


def try_class(answer):
    """On a rank: what comes of the scripts; StashingStage itself is tried before."""
    try:
        list(judge_scripts(try_scripts(base_of(answer))))
    except Exception:
        raise Refused(
            "StashingStage of your lab is not right yet", 'first: check("8.14")'
        ) from None
    return try_scripts(answer)


def guesses_at(script):
    """What the bug makes of a script, and what some repairs do."""
    return [
        (NUDGE, in_place(script)),
        (TWICE, by_hand(script, step=-2 * LR)),
        (UPHILL, by_hand(script, step=LR)),
        (NO_RATE, by_hand(script, step=-1.0)),
    ]


def in_place(script) -> SimpleNamespace:
    """The weights after each update if there is but one memory for all versions."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights_of(script.place).items()}
    totals, found = {}, []
    for kind, i, _ in script.actions:
        if kind == "F":
            y = output_of(leaves, input_of(script.place, i))
            totals[i] = loss_of(y) if script.place == "last" else (y * slope_of(i)).sum()
            continue
        gradients = torch.autograd.grad(totals.pop(i), list(leaves.values()))
        for weight, gradient in zip(leaves.values(), gradients):
            weight.data -= LR * gradient
        found.append({name: w.detach().clone() for name, w in leaves.items()})
    return SimpleNamespace(weights=found)


EXERCISE = Exercise(
    "8.15", "InPlaceStage", examine_in_place,
    (
        "With one micro-batch at a time it is right. What is different when a second one has "
        "gone forward before the first comes back?",
        "self.stash keeps the dictionary that a forward has gone through, and autograd keeps "
        "its tensors. Neither has a copy: `.data -=` changes what both of them hold.",
        "Make the next version of new tensors, weight.detach() - self.lr * gradients[name], "
        "and leave the old ones as they are.",
        "Each new tensor is a leaf that requires a gradient: .requires_grad_(). Put them into "
        "a new dictionary self.weights[self.version]; the old one leaves self.weights.",
    ),
)  # fmt: skip
