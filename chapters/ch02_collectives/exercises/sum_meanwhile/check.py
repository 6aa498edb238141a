"""A sum that is under way while the rank computes."""

import torch

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, Sends, World, never

from .cases import LARGE, add_up
from .truth import (
    mistakes_of_result,
    mistakes_of_sum,
    most_bytes,
    need_overlap,
    one_all_reduce,
    result,
    total,
)

EXERCISE = RankExercise(
    "sum_meanwhile",
    cases=[
        RankCase(World(2), ((4,), torch.float64, None), ", x of 4 numbers"),
        RankCase(World(2), ((4,), torch.float64, 0), ", rank 1 comes when rank 0 computes"),
        RankCase(World(3), ((2, 3), torch.int64, None), ", x of 2 × 3 whole numbers"),
        RankCase(World(3), ((), torch.float64, 2), ", ranks 0 and 1 come when rank 2 computes"),
        RankCase(World(1), ((5,), torch.float64, None), ", alone"),
        RankCase(GROUP, ((4,), torch.float64, None), ", x of 4 numbers"),
        RankCase(World(2), ((LARGE,), torch.float64, None), f", x of {LARGE:,} numbers"),
    ],
    work=add_up,
    timeout=10.0,  # ranks wait for each other in files, and give up earlier
    facts=[
        one_all_reduce,
        need_overlap,
        Holds("times", lambda times: times == 1, "compute() has been called {} times",
              "compute() may take minutes: call it once, and keep what it returns"),
        Equals("x", total, mistakes_of_sum),
        never("moved", "x has its numbers elsewhere",
              "whoever looks at x finds other memory there: the sum belongs into x itself"),
        Equals("result", result, mistakes_of_result, "what it returns"),
        Sends(most_bytes, "one all-reduce of x is", {"": "one all-reduce of x is enough"}),
    ],
    right=lambda trial: "the sum is under way while the rank computes"
    if trial.case.args[2] is not None else "x holds the sum, and the result is that of compute()",
    errors={
        "'NoneType' object has no attribute 'wait'": "without async_op=True a collective waits, "
        "and returns None: there is no Work to wait for",
        "missing 1 required positional argument": "compute() takes no arguments",
        "takes 0 positional arguments": "compute() takes no arguments",
    },
    hints=(
        "Three things happen in this order: the sum begins, compute() runs, and the rank waits.",
        "dist.all_reduce(x, group=group, async_op=True) returns a Work. Keep it.",
        "Call compute() and keep its result; then work.wait(); then return the result.",
    ),
)  # fmt: skip
