"""The mean of a number over all ranks: a first all-reduce."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World

from .cases import mean_on_rank
from .truth import (
    describe_kind,
    describe_mean,
    mean_of_all,
    mistakes,
    numbers_of,
    right_on_some,
    why_no_number,
)

EXERCISE = RankExercise(
    "mean_over_ranks",
    cases=[
        RankCase(World(4)),
        RankCase(World(3)),
        RankCase(World(2)),
        RankCase(World(1)),
    ],  # the first case tells mistakes apart
    work=mean_on_rank,
    facts=[
        Holds("got", lambda value: isinstance(value, (int, float)), describe_kind, why_no_number),
        Equals("got", mean_of_all, mistakes, "the mean", right_on_some, tells=describe_mean),
    ],
    right=lambda trial: f"the mean of {', '.join(map(str, numbers_of(trial)))}, on every rank",
    errors={
        "NoneType": "dist.all_reduce returns None: it writes the sum into the tensor that it got",
        "'float' object has no attribute": "dist.all_reduce takes a tensor, and `number` is a "
        "Python float: make a tensor of it first",
        "of type torch.Tensor": "dist.all_reduce takes a tensor: make one of `number` first",
        "default process group twice": "the ranks are connected already: launch has done that",
        "is not initialized in": "a process group is gone: keep the connection of the ranks, they "
        "are asked for more means",
        "has not been initialized": "the connection of the ranks is gone: keep it, they are asked "
        "for more means",
        "division by zero": "ranks count from 0, so dist.get_rank() may be 0. How many ranks there "
        "are is dist.get_world_size()",
    },
    on_hang="an all-reduce is complete when every rank has called it. Here some rank does not, or "
    "makes another call",
    hints=(
        "A mean is a sum, divided by how many there are. Which call gives every rank the sum?",
        "dist.all_reduce takes a tensor, and writes the sum into it. So make a tensor of the "
        "number first, in float64.",
        "After the all-reduce, x.item() is the sum as a Python float. dist.get_world_size() tells "
        "how many ranks there are.",
    ),
)
