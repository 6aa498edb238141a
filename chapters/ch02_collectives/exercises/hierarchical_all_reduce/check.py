"""An all-reduce that sends as little as possible from machine to machine."""

from coursekit.protocol import Exercise

from .truth import CASES, LARGE, SMALL, cost, try_case
from .two_levels import judge


def examine(answer):
    for case in CASES:
        judge(case, try_case(case, answer))
        yield str(case)
    for case in (*LARGE, SMALL):
        yield cost(case, answer)


EXERCISE = Exercise(
    "hierarchical_all_reduce",
    examine,
    (
        "Three of the functions that you know, one for each step: the first and the last in "
        "`inside`, the second in `across`.",
        "Cut x.view(-1) into as many chunks as the machine has ranks. After reduce_scatter_ring "
        "inside, which chunk does this rank have the sum of?",
        "chunks[dist.get_rank(inside)] is what goes across, in all_reduce_ring.",
    ),
    lab="across_machines",
    needs=("reduce_scatter_ring", "all_gather_ring", "all_reduce_ring"),
)
