"""Exercise 5.2: train_and_validate."""

from ...course.checking import Exercise
from .activations import examine_train_and_validate

EXERCISE = Exercise(
    "5.2", "train_and_validate", examine_train_and_validate,
    (
        "How long does the graph of a validation loss live? As long as somebody holds the "
        "loss, or a sum that it went into. Who holds it, in this program?",
        "Two lists hold tensors with graphs: `losses` for one round, and `means` to the end.",
        "For the first, let autograd record nothing: with torch.no_grad(): around validation. "
        "For the second, append numbers: .item().",
    ),
)  # fmt: skip
