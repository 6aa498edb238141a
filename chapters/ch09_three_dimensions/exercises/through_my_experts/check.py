"""Experts that no token chooses: the backward has to go through them all the same."""

from coursekit.kit import RankCase, World, complains
from coursekit.kit.single_rank import LocalExercise

from .cases import go_through
from .truth import faults

FINDS_A_BUG = True

EXERCISE = LocalExercise(
    "through_my_experts",
    cases=[
        RankCase(World(1), ((2, 3),), ", 2 and 3 rows"),
        RankCase(World(1), ((0, 4),), ", nothing for the first expert"),
        RankCase(World(1), ((0, 0),), ", nothing for either"),
        RankCase(World(1), ((0,),), ", nothing, and one expert"),
        RankCase(World(1), ((1, 0, 0, 2),), ", four experts, two of them without rows"),
    ],
    work=go_through,
    facts=[complains(faults)],
    right="what the experts make of them, and gradients for everything",
    errors={
        "split_with_sizes": "counts says how many rows each expert gets, and is handed on as it is",
        "no attribute 'tolist'": "counts is a tensor, and is handed on as it is",
    },
    hints=(
        "Which ranks take part in the all-to-all of the backward? What has to be true of a tensor, "
        "so that the backward goes through it?",
        "new_zeros makes a tensor that comes from nowhere: its requires_grad is False. An empty "
        "tensor can be multiplied with a matrix as well, and then it has a history.",
    ),
)
