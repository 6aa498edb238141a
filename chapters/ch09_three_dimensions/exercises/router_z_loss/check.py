"""A loss that keeps scores small, on one rank or as a mean over the tokens of several."""

from coursekit.kit import GROUP, RankExercise, World, complains

from .cases import case, compute_loss
from .truth import faults, need_one_number

EXERCISE = RankExercise(
    "router_z_loss",
    lab="experts",
    cases=[
        case(World(1), (5,), 3, ", 3 experts", shift=-2.0),
        case(World(1), (4,), 2, ", scores in the thousands", shift=1000.0),
        case(World(1), (4,), 5, ", scores far below 0", shift=-900.0),
        case(World(2), (3, 6), 4, ", each by itself, without a group", alone=True),
        case(World(2), (4, 4), 3, ", equally many tokens"),
        case(World(3), (2, 7, 3), 4, ", unequally many tokens"),
        case(World(3), (3, 0, 5), 3, ", a rank without tokens"),
        case(GROUP, (1, 6, 4), 4, ", unequally many tokens"),
        case(World(2), (200, 2857), 3, ", many tokens"),
    ],
    work=compute_loss,
    facts=[complains(faults), complains(need_one_number)],
    right=lambda trial: f"{trial[0].value:.4g}",
    errors={
        "different dtypes": "all ranks add up tensors of one dtype",
        "expected scalar type": "all ranks add up tensors of one dtype",
        "without overflow": "the count of tokens has to be exact: 8 bits do not hold it",
        "division by zero": "a rank may have no tokens; divide by those of all ranks",
    },
    on_hang="with a group, all its ranks take part in the sum, also one without tokens",
    hints=(
        "scores.logsumexp(-1) is z, for each token, and is right for large scores, too.",
        "With a group, which number does a rank lack? It is a sum over the ranks, of something "
        "that needs no gradient.",
        "Afterwards the results of n ranks are averaged. The sum of their squares, divided by all "
        "tokens, is wanted: so each rank returns n times its part of that.",
    ),
)
