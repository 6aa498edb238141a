"""The chunk that a rank sends in a step of the reduce-scatter round a ring."""

from coursekit.protocol import Exercise

from .truth import chunk_from, play


def examine(answer):
    for n in (4, 2, 3, 5):
        case = f"{n} ranks"
        sends = [[chunk_from(case, answer, rank, step, n) for step in range(1, n)]
                 for rank in range(n)]  # fmt: skip
        play(sends, n)
        yield f"{case}: rank 0 sends chunks {sends[0]}"


EXERCISE = Exercise(
    "chunk_to_send",
    examine,
    (
        "In step s a rank passes on what came in step s - 1. So if the rank before you sends "
        "chunk c now, you send chunk c in the next step.",
        "Follow chunk 0: it ends on rank 0 after n - 1 steps. Where did it begin?",
        "Chunk k begins on rank k + 1. So which one does rank r send in step 1? And each step, "
        "one less.",
    ),
)
