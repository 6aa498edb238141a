"""Exercise 3.9: train_steps."""

from ...course.checking import Exercise
from .broken_loops import examine_steps

EXERCISE = Exercise(
    "3.9", "train_steps", examine_steps,
    (
        "Three things that a loop on one process has are missing. What is `batch`, and what "
        "does a model give for it?",
        "backward() needs one number: loss_fn(outputs, targets).",
        "backward() adds to what is in `.grad`, and zero_grad() sets it back: in each round, "
        "anywhere but between backward() and step().",
    ),
)  # fmt: skip
