"""Exercise 3.3: loss_factor."""

from ...course.checking import Exercise
from .shares import examine_loss_factor

EXERCISE = Exercise(
    "3.3", "loss_factor", examine_loss_factor,
    (
        "Exercise 1.3 again: by how much does each mean have to count, if they are added up?",
        "DDP does not stop at adding up: it divides by n, too. What has to "
        "be undone?",
        "samples times the mean loss is the sum over this rank's samples. Divide by "
        "all_samples, and multiply by what DDP divides by.",
    ),
)  # fmt: skip
