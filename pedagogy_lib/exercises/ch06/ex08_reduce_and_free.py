"""Exercise 6.8: reduce_and_free."""

from ...course.checking import Exercise
from .broken_zero import examine_reduce

EXERCISE = Exercise(
    "6.8", "reduce_and_free", examine_reduce,
    (
        "Which tensors can still be reached when the function has returned? How large is the "
        "memory behind each of them?",
        "zero_() writes zeros into memory, and frees none. And a chunk is a view: as long as "
        "it lives, the whole flat tensor lives.",
        "Receive into a tensor of its own, torch.empty_like(chunks[rank]), and set each p.grad "
        "to None.",
    ),
)  # fmt: skip
