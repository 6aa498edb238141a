"""A first custom autograd function: the warm-up for Recomputed.

The truth is x ** exponent itself, with autograd's own backward.
"""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import TRIALS, compare, measure_kept
from .truth import NOTHING_KEPT, compute_known_values, find_visible_mistakes, why_other_gradient

EXERCISE = WarmExercise(
    "Power",
    lab="recomputation",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone("memory", measure_kept),
    ],
    work=run_alone,
    known=compute_known_values,
    found=lambda case: ("y", "gradient") if case.work is compare else ("kept",),
    facts=[
        Equals("y", lambda trial, place: trial[place].right["y"],
               called="the loss that comes of what the forward returns",
               otherwise="the forward stands there already: x ** exponent"),
        never("changed", "x is not as it was",
              "x belongs to the caller, and so does its memory: compute a new tensor"),
        Equals("gradient", lambda trial, place: trial[place].right["gradient"],
               lambda trial, place: find_visible_mistakes(trial[place]), "x.grad",
               otherwise=why_other_gradient),
        Holds("kept", lambda times: times < 0.5,
              "{:.1f} times as much as x is kept for the backward, beside x",
              "x alone is enough: it is the caller's tensor, so keeping it takes no more memory. "
              "What the backward computes from it need not be kept"),
    ],
    right=lambda trial: (
        "nothing is kept but x" if trial.collect_values("kept") else "value and gradient are right"
    ),
    errors={
        "incorrect number of gradients": "the forward has two inputs, exponent and x: the backward "
        "returns two gradients, in this order. That of the exponent is None",
        "different than None at position": "gradients are returned in the order of the forward's "
        "inputs: None for the exponent, which is no tensor, then that of x",
        "must be Tensor": "the gradient of x is a tensor in the shape of x",
        "invalid gradient at index": "the gradient of x has the shape of x",
        "not enough values to unpack": NOTHING_KEPT,
        "'tuple' and": NOTHING_KEPT,
        "more than one element of the written-to tensor": "grad_output belongs to autograd, and is "
        "not to be written into: compute a new tensor",
        "does not have a grad_fn": "in a backward autograd does not look: the backward computes "
        "with numbers, it does not call backward() itself",
        "has no attribute 'apply'": "Power has to stay a torch.autograd.Function: apply() is its",
        "through the graph a second time": "the backward computes with numbers, it does not call "
        "backward() itself",
    },
    hints=(
        "The derivative of x ** p is p * x ** (p - 1). With p = 3 and x = 2 that is 12.",
        "By the chain rule, multiply it by grad_output: how much the loss changes with each "
        "element of what the forward returned.",
        "The forward has two inputs, so the backward returns two gradients: None for the exponent, "
        "and then that of x.",
    ),
)  # fmt: skip
