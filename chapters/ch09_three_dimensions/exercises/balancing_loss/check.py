"""A loss that is small if all experts get equal loads, on one rank or on several together."""

from coursekit.kit import GROUP, RankExercise, World, complains

from .cases import balance, case
from .truth import faults, need_few_bytes

EXERCISE = RankExercise(
    "balancing_loss",
    lab="experts",
    cases=[
        case(World(1), 3, 2, 5, ", 3 experts, 2 for each token"),
        case(World(1), 4, 1, 8, ", 4 experts"),
        case(World(1), 5, 1, 6, ", nearly all choose one expert", lonely=True),
        case(World(2), 4, 2, 6, ", each by itself, without a group", alone=True),
        case(GROUP, 4, 1, 6, ", 4 experts"),
        case(GROUP, 4, 2, 6, ", each rank has another favourite", lonely=True),
    ],
    work=balance,
    facts=[complains(faults), complains(need_few_bytes)],
    right=lambda trial: f"{trial[0].value:.4g}",
    errors={
        "only Tensors of floating point": "loads are whole numbers, and a loss is none: a share is "
        "a load divided by the sum of the loads",
        "different dtypes": "all ranks add up tensors of one dtype",
    },
    on_hang="with a group, all its ranks add up their loads",
    hints=(
        "load_of(experts, n) counts. Divided by its sum, it is the shares.",
        "scores.softmax(-1) has a row for each token. What is its mean over the tokens?",
        "With a group: dist.all_reduce(loads, group=group), before they become shares.",
    ),
)  # fmt: skip
