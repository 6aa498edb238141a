"""The right results, and the results of known mistakes."""

from coursekit.kit import Wrong
from coursekit.kit.formula import value_of
from coursekit.kit.results import need_kind, text_of

from .cases import NOT_AN_INDEX


def chunk_from(case, answer, rank, step, n) -> int:
    """Return the answer's chunk number; raise `Wrong` if it is not an integer."""
    case = f"{case}: chunk_to_send({rank}, {step}, {n})"
    got = value_of(answer, (rank, step, n))
    need_kind(case, got, 1)
    if not isinstance(got, int):
        raise Wrong(case, f"it gave {text_of(got)}, not a whole number", NOT_AN_INDEX)
    return got


def play(sends, n):
    """Simulate the reduce-scatter of these sends; raise `Wrong` at the first error."""
    has = [[{rank} for _ in range(n)] for rank in range(n)]  # ranks whose numbers are in each chunk
    case = f"{n} ranks"
    for rank, of_rank in enumerate(sends):
        for step, chunk in enumerate(of_rank, start=1):
            if not 0 <= chunk < n:
                what = f"rank {rank} sends chunk {text_of(chunk):.40} in step {step}"
                raise Wrong(case, what, "chunks have numbers from 0 to n - 1: take % n.")
    for step in range(n - 1):
        moving = [(rank, sends[rank][step]) for rank in range(n)]
        packets = [(rank, chunk, set(has[rank][chunk])) for rank, chunk in moving]
        for rank, chunk, packet in packets:
            has[(rank + 1) % n][chunk] |= packet
    for rank in range(n):
        if len(has[rank][rank]) < n:
            raise Wrong(case, *offence(sends, has, rank, n))


def offence(sends, has, rank, n) -> tuple[str, str]:
    what = (
        f"rank {rank}'s chunk {rank} has the numbers of ranks {sorted(has[rank][rank])} alone, "
        f"after its {n - 1} sends of chunks {sends[rank]}"
    )
    complete = [chunk for chunk in range(n) if len(has[rank][chunk]) == n]
    if len(set(sends[rank])) == 1 and n > 2:
        return what, (
            "a rank always sends the same chunk: then nothing adds up on the way. It passes on, "
            "in each step, the chunk that it received in the step before."
        )
    if all(of_rank == sends[0] for of_rank in sends):
        return what, (
            "all ranks send the same chunk in a step. In a ring all chunks travel at once: what a "
            "rank sends depends on its number."
        )
    if all(n - 1 not in of_rank for of_rank in sends):
        return what, (
            f"nobody ever sends chunk {n - 1}: the numbers turn round too early. There are n "
            "chunks, so take % n; n - 1 is the number of steps."
        )
    if complete:
        return what, (
            f"the steps are right, and chunk {complete[0]} is complete on rank {rank}. It should "
            f"be chunk {rank}: begin with another one. Rank k's chunk has to travel from rank "
            "k + 1 all the way round. (The first step is step 1.)"
        )
    return what, (
        "in each step a rank passes on the chunk that has just come from the rank before it, and "
        "that rank's chunk numbers go down by one a step."
    )
