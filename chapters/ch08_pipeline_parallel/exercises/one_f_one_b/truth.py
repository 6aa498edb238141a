"""The right results, and the results of known mistakes."""

from ..shared.actions import make_memory_schedule

ONE_TOO_MANY = (
    "one forward too many, so one micro-batch too many is kept. `ranks - rank` counts this rank, "
    "too: asked is how many come after it",
    make_memory_schedule(lambda rank, ranks, m: ranks - rank + 1),
)

# Mistakes in any schedule that has to be in order and keep as little as 1F1B does.
MISTAKES = [
    (
        "one forward too few comes before the first backward, and the ranks wait for each other. "
        "Count the ranks after this one: rank 0 of 4 has 3 of them. And after the warm-up the "
        "forward "
        "comes first, then the backward: one F, one B",
        make_memory_schedule(lambda rank, ranks, m: ranks - rank - 1),
    ),
    (
        "a warm-up twice as long as it has to be: it would fill the pipeline as well, and twice as "
        "much would be kept. As many as there are ranks after this one are enough",
        make_memory_schedule(lambda rank, ranks, m: 2 * (ranks - rank) - 1),
    ),
    (
        "a warm-up twice as long as it has to be, and this rank is counted, too: as many as "
        "there are "
        "ranks after this one are enough",
        make_memory_schedule(lambda rank, ranks, m: 2 * (ranks - rank) + 1),
    ),
    (
        "each rank goes back right after its first forward. Only the last one can: the others wait "
        "for it, and do nothing meanwhile. First each rank warms up, with as many forwards as "
        "there "
        "are ranks after it",
        make_memory_schedule(lambda rank, ranks, m: 1),
    ),
    (
        "all forwards come before the first backward: this is GPipe, and every rank keeps all "
        "micro-batches. After the warm-up, each forward is followed by a backward",
        make_memory_schedule(lambda rank, ranks, m: m),
    ),
]

truth = make_memory_schedule(lambda rank, ranks, m: ranks - rank)

ALL_MISTAKES = [ONE_TOO_MANY, *MISTAKES]  # fmt: skip
