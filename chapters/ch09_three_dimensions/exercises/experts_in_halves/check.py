"""Two halves of a batch: the rows of one travel while the experts compute with the other.

What `there` and `back` bring stays nan until it is waited for, and all events are noted, so that
their order is observed, not timed.
"""

from coursekit.kit import Equals, RankCase, RankExercise, World, complains, never

from .cases import run_halves
from .truth import describe_outputs, faults, idle, mistakes, truth, unfinished

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "experts_in_halves",
    cases=[
        RankCase(World(2), (((3, 2), (1, 4)), ((2, 1), (5, 2))), ", two halves"),
        RankCase(World(2), (((0, 2), (3, 0)), ((2, 2), (0, 0))), ", a rank that gets nothing"),
        RankCase(World(2), (((2, 1), (1, 2)),), ", all in one part"),
        RankCase(
            World(2),
            (((1, 2), (3, 1)), ((2, 2), (1, 1)), ((1, 0), (2, 3)), ((2, 1), (1, 2))),
            ", four parts",
        ),
        RankCase(
            World(3),
            (((1, 2, 0), (2, 1, 1), (0, 3, 2)), ((2, 0, 1), (1, 1, 1), (3, 0, 0))),
            ", two halves",
        ),
    ],
    work=run_halves,
    facts=[
        complains(faults),
        never(
            "nans",
            lambda found: f"the experts computed with rows that were {found}",
            "the rows are still on their way. `there` returns at once: what it brings is in the "
            "tensor only after wait(), which has to come before the experts",
        ),
        complains(unfinished),
        complains(idle),
        Equals("outputs", truth, mistakes, "what is returned", tells=describe_outputs),
    ],
    right="each half's rows travel while experts compute with the other half",
    errors={
        "has no attribute 'size'": "a transfer is no tensor: its wait() returns one",
        "must be Tensor, not Transfer": "a transfer is no tensor: its wait() returns one",
        "Transfer' object": "a transfer is no tensor: its wait() returns one",
        "list index out of range": "there may be any number of halves, even one",
        "values to unpack": "there may be any number of halves, even one",
    },
    on_hang="all ranks send their halves in the same order, and each half once there and back",
    hints=(
        "Follow one half: which of its lines needs rows that another line is still bringing?",
        "transfer.wait() returns the rows, when they have come. The experts take these.",
    ),
)
