"""Exercise 6.2: flatten_padded."""

from ...course.checking import Exercise
from .sharding import examine_flatten_padded

EXERCISE = Exercise(
    "6.2", "flatten_padded", examine_flatten_padded,
    (
        "torch.cat lays tensors of one dimension one after another, in a new one. Which method "
        "gives any tensor one dimension?",
        "How many zeros are missing to the next multiple of n? None, if it is one already: "
        "-elements % n.",
        "tensors[0].new_zeros(padding) has the type that torch.cat needs, and is on the right "
        "device.",
    ),
    lab="zero",
)  # fmt: skip
