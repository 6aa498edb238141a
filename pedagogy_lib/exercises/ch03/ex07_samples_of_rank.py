"""Exercise 3.7: samples_of_rank."""

from ...course.checking import Exercise
from .shares import examine_samples_of_rank

EXERCISE = Exercise(
    "3.7", "samples_of_rank", examine_samples_of_rank,
    (
        "Three steps: shuffle, the same on all ranks; fill up to a multiple of n; take every "
        "n-th.",
        "torch.randperm(length, generator=g) shuffles, with g = torch.Generator(), and "
        "g.manual_seed(seed + epoch). `.tolist()` makes a list of it.",
        "Everybody reads ceil(length / n), so that times n are needed. A list repeated often "
        "enough, and cut to this length, is the order continued with its own beginning.",
        "order[rank::n] is every n-th, from place `rank` on.",
    ),
    lab="data_parallel",
)  # fmt: skip
