"""Exercise 2.5: chunk_to_send."""

from ...course.checking import Exercise
from .formulas import examine_chunk_to_send

EXERCISE = Exercise(
    "2.5", "chunk_to_send", examine_chunk_to_send,
    (
        "In step s a rank passes on what came in step s - 1. So if the rank before you sends "
        "chunk c now, you send chunk c in the next step.",
        "Follow chunk 0: it ends on rank 0 after n - 1 steps. Where did it begin?",
        "Chunk k begins on rank k + 1. So which one does rank r send in step 0? And each step, "
        "one less.",
    ),
)  # fmt: skip
