"""An all-gather round the ring."""

from coursekit.kit.collective_exercise import Collective
from coursekit.kit.diagnoses import contributions, same

from ..shared.costs import need_half_a_ring
from ..shared.misconceptions import (
    changes_nothing,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
)
from ..shared.tasks import LARGE_RINGS, RING_CASES, Chunks
from .truth import truth


def where_it_came_from(trial, place, index):
    """Return the (rank, k) whose original chunk k is now at `index`; None if there is none."""
    for other, tensors in enumerate(trial.before):
        for k, tensor in enumerate(tensors):
            if tensor.numel() and same(trial.after[place][index], tensor):
                return other, k
    return None


def some_chunks_missing(trial) -> str:
    """Diagnose an all-gather that stops early, so that chunks still hold their old values."""
    n = trial.case.n
    missing = [
        [k for k in range(n) if where_it_came_from(trial, place, k) == (place, k) != (k, k)]
        for place in range(n)
    ]
    if not all(missing):
        return ""
    return (
        f"{len(missing[0])} of {n} chunks on each rank are still what they were: after n - 1 steps "
        "a rank has received all chunks but its own."
    )


def wrong_place_in_list(trial) -> str:
    """Diagnose an all-gather that files chunks under a wrong index or passes on the wrong one."""
    n = trial.case.n
    for place in range(n):
        for index in range(n):
            found = where_it_came_from(trial, place, index)
            if found and found[0] == found[1] != index:
                return (
                    f"rank {place}'s chunks[{index}] holds chunk {found[1]}. In each step a rank "
                    "passes on the chunk that came in last, and files what comes in under that "
                    "chunk's own number: the one that the rank before it is sending."
                )
    return ""


def begins_with_another_chunk(trial) -> str:
    """Diagnose, by simulation, a ring whose first chunk is not the rank's own."""
    n = trial.case.n
    for shift in range(1, n):
        held = [list(tensors) for tensors in trial.before]
        for step in range(n - 1):
            chunk = [(place + shift - step) % n for place in range(n)]
            moving = [held[place][chunk[place]] for place in range(n)]
            for place in range(n):
                held[place][chunk[place - 1]] = moving[place - 1]
        if all(same(a, b) for pair in zip(held, trial.after) for a, b in zip(*pair)):
            return (
                f"in the first step rank 0 sends chunk {shift}, and what it has there is no "
                "result. A rank begins with the chunk that is its own, the only complete one."
            )
    return ""


def diagnose_early_send(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for index in range(n):
            found = where_it_came_from(trial, place, index)
            if found and found[1] == index and found[0] not in (index, place):
                return (
                    f"rank {place}'s chunks[{index}] is what rank {found[0]} had there at the "
                    f"start, not what rank {index} brought: a chunk went on before it had come. "
                    "Wait for the receive of one step before the send of the next."
                )
    return ""


def diagnose_sum_in_chunks(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n):
            got = trial.after[place][k]
            times = contributions(got, [tensors[k] for tensors in trial.before])
            if times is not None and sum(times) > 1:
                return (
                    f"rank {place}'s chunks[{k}] holds a sum. In an all-gather what comes in "
                    "replaces what was there; nothing is added."
                )
    return ""


EXERCISE = Collective(
    "all_gather_ring",
    task=Chunks(),
    truth=truth,
    cases=RING_CASES,
    diagnoses=[
        put_into_the_list,
        changes_nothing,
        group_ignored,
        begins_with_another_chunk,
        diagnose_early_send,
        some_chunks_missing,
        wrong_place_in_list,
        diagnose_sum_in_chunks,
    ],
    large=LARGE_RINGS,
    need_cost=need_half_a_ring,
    explain_hang=hang_between_neighbours,
    hints=(
        "The same ring, without adding: in the first step each rank sends its own chunk.",
        "Then it always passes on the one that came in last. With steps from 1, this is chunk "
        "(rank - step + 1) % n.",
        "What comes in is chunk (rank - step) % n. Receive straight into that.",
    ),
    lab="collectives",
)
