"""A reduce-scatter round the ring."""

from coursekit.kit.collective_exercise import Collective, total
from coursekit.kit.diagnoses import same

from ..shared.costs import need_half_a_ring
from ..shared.misconceptions import (
    changes_nothing,
    diagnose_mean,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
    sum_of_the_wrong_ranks,
)
from ..shared.tasks import LARGE_RINGS, RING_CASES, Chunks
from .truth import truth


def neighbours_chunk(trial) -> str:
    """Diagnose a reduce-scatter whose finished chunks are on the wrong ranks."""
    n = trial.case.n
    for shift in range(1, n):
        if all(
            same(trial.after[place][(place + shift) % n], total(trial.before, (place + shift) % n))
            for place in range(n)
        ):
            return (
                f"the sums are right, but on the wrong ranks: rank 0 has finished chunk {shift}, "
                f"not chunk 0. Follow chunk 0 backwards: it has to arrive at rank 0 in the last "
                "step, so rank 1 begins with it."
            )
    return ""


def steps_missing(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if "missing" not in said:
        return ""
    return said + (
        " A chunk is complete when it has passed every rank: n - 1 steps, and in each a rank adds "
        "its own numbers and passes on the sum, not what it had at the start."
    )


def diagnose_double_add(trial) -> str:
    said = sum_of_the_wrong_ranks(trial)
    if "twice" not in said:
        return ""
    return said + " One step too many, or a chunk that went on after it was complete: n - 1 steps."


def diagnose_overwrite(trial) -> str:
    n = trial.case.n
    for place in range(n):
        others = [t[place] for k, t in enumerate(trial.before) if k != place]
        if n == 1 or not any(same(trial.after[place][place], x) for x in others):
            return ""
    return (
        "each rank ends with another rank's chunk, not with a sum: receiving into a chunk "
        "overwrites it. Receive into another tensor, and add that."
    )


EXERCISE = Collective(
    "reduce_scatter_ring",
    task=Chunks(),
    truth=truth,
    cases=RING_CASES,
    diagnoses=[
        put_into_the_list,
        changes_nothing,
        group_ignored,
        neighbours_chunk,
        diagnose_mean,
        diagnose_double_add,
        steps_missing,
        diagnose_overwrite,
    ],
    large=LARGE_RINGS,
    need_cost=need_half_a_ring,
    explain_hang=hang_between_neighbours,
    hints=(
        "n - 1 steps. In each: exchange(…) sends one chunk to the next rank, and receives one "
        "from the rank before into a tensor of its own. Add that.",
        "Which chunk goes (that is exercise {{chunk_to_send}})? Rank k receives chunk k in the "
        "last step, and "
        "chunk k + 1 in the step before it. The chunk that comes is the one that the rank before "
        "sends: the same formula, with rank - 1.",
    ),
    lab="collectives",
)
