"""Exercise 6.1: bytes_of_rank."""

from ...course.checking import Exercise
from .sharding import examine_bytes_of_rank

EXERCISE = Exercise(
    "6.1", "bytes_of_rank", examine_bytes_of_rank,
    (
        "How many numbers has a part? What is split is padded until n divides it, so all "
        "parts are as large as the largest.",
        "That is parameters / n, rounded up: -(-parameters // n). For each kind it is either "
        "this, or all parameters.",
        "From stage 1 on the optimizer's state is split, from stage 2 on the gradients, in "
        "stage 3 the parameters. Multiply each count by the bytes in `each`.",
    ),
)  # fmt: skip
