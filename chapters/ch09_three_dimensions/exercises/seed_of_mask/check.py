"""The seed of a dropout mask: the same on all ranks, and another mask for other numbers."""

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import PLACES, draw
from .truth import faults

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "seed_of_mask",
    cases=[RankCase(World(4))],
    work=draw,
    facts=[complains(faults)],
    right=f"the masks of {len(set(PLACES)):,} places differ, and are the same on all ranks",
    errors={"unsupported operand": "step, sample and module are whole numbers"},
    hints=(
        "Which ranks have to draw the same mask? What do they all know alike?",
        "The rank must not decide. The step, the number of the sample in the whole batch, and the "
        "module must.",
        "As in a number with three digits: (step * 1_000_000 + sample) * 1_000 + module. With "
        "powers of 2 in place of those of 10, the step would leave the lowest 32 bits. A hash "
        "works, too, if it is the same in each process, as that of numpy's SeedSequence is.",
    ),
)
