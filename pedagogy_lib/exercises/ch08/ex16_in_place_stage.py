"""Versions of the weights that are all the same memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...course.checking import Wrong
from ...course.labs import find_lab
from ...course.trying import there
from ..kit import RankExercise
from .unflushed import (
    NOT_REQUIRED,
    STAGE_WAS_RIGHT,
    cases_with,
    facts_with,
    names_found,
    told,
    try_stage,
)
from .versions import (
    LR,
    SCRIPTS,
    actions_of,
    by_hand,
    input_of,
    loss_of,
    output_of,
    slope_of,
    weights_of,
)

FINDS_A_BUG = True

KEPT = (
    "the numbers are right, but old versions stay in self.weights, all of them, for ever. It has "
    "the newest one; who is under way has an older one in self.stash"
)


def in_place(place) -> list[dict]:
    """The weights after each update if there is but one memory for all versions."""
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
        "dictionary has the very same tensors in it)": in_place(place),
        "each gradient is used twice: two updates for one backward":
            by_hand(place, step=-2 * LR).weights,
        "the weights go the other way: a step goes against the gradient":
            by_hand(place, step=LR).weights,
        "a step is lr times the gradient": by_hand(place, step=-1.0).weights,
    }  # fmt: skip


@dataclass(frozen=True)
class InItsLab:
    """A class of a cell, and the lab whose class it is derived from."""

    make: Callable
    lab: object

    def __call__(self, *args, **kwargs):
        return self.make(*args, **kwargs)


def try_in_its_lab(answer, group, case):
    return try_stage(InItsLab(answer, find_lab("pipedream")), group, case)


def shown_unless_of_its_kind(answer) -> str:
    bases = answer.__mro__[1:] if isinstance(answer, type) else ()
    return "" if any(base.__name__ == "StashingStage" for base in bases) else f"{answer!r:.60}"


class OfAClass(RankExercise):
    def trials(self, answer):
        if shown := there(shown_unless_of_its_kind, answer):
            why = (
                "it is to remain a class InPlaceStage(pipedream.StashingStage); give check() the "
                "class itself"
            )
            raise Wrong("your class", f"check() was given {shown}", why)
        return super().trials(answer)


EXERCISE = OfAClass(
    "8.16",
    "InPlaceStage",
    needs=("8.15", "8.7"),
    cases=cases_with(2, 3),
    work=try_in_its_lab,
    found=names_found,
    facts=facts_with(mistakes, KEPT),
    told=told,
    errors={
        "modified by an inplace operation": "autograd now notices that weights have changed which "
        "somebody under way still needs, and refuses. `.data` had only hidden that from it. To be "
        "told of the damage does not undo it",
        "a leaf Variable that requires grad": "autograd watches over the weights: those that "
        "somebody under way still needs stay as they are, and the next version is made of new "
        "tensors",
        "does not require grad": NOT_REQUIRED,
        "non-leaf": "a copy of what has a history: begin with weight.detach()",
        "'pipedream' is not defined": 'run the cell with pipedream = lab("pipedream") first',
        "changed size during iteration": "a dictionary cannot change while it is gone through",
    },
    lost=STAGE_WAS_RIGHT,
    hints=(
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
