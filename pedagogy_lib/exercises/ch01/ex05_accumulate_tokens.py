"""Exercise 1.5: accumulate_tokens."""

from ...course.checking import Exercise
from . import accumulation

EXERCISE = Exercise(
    "1.5", "accumulate_tokens", accumulation.examine_tokens,
    (
        "Which number does the mean divide by? Not sentences, not positions: targets that "
        "are not PADDING, in all micro-batches together.",
        "F.cross_entropy(…, reduction=\"sum\") ignores targets of −100 and does not divide.",
        "It wants logits (n, vocabulary) and targets (n): flatten both, model(tokens)"
        ".flatten(0, 1) and targets.flatten().",
    ),
    lab="gradient_accumulation",
)  # fmt: skip
