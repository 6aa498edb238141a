"""A row layer in which each rank adds 1/n of the bias. The truth is one process."""

from coursekit.kit import RankCase, World
from coursekit.kit.forward_backward import make_reference_exercise, right
from coursekit.kit.message_costs import SendLimit

from .cases import INPUTS, prepare
from .truth import every_row, gradients_of, y_of

FINDS_A_BUG = True

EXERCISE = make_reference_exercise(
    "row_layer",
    cases=[
        RankCase(World(n), (lead,), f", x {[*lead, INPUTS]}")
        for n, lead in [(1, (3,)), (2, (3,)), (2, (2, 2)), (3, (2, 2))]
    ],
    prepare=prepare,
    y=right("y", y_of, tells=every_row),
    gradients=gradients_of,
    needs=("all_reduce",),
    more=[
        SendLimit(lambda trial: 0, "a backward sends",
                "a part of the bias goes into the sum from every rank, and its gradient has to be "
                "put together again. Behind the sum each rank can add the whole bias: it has y's "
                "gradient already, and nothing is sent in the backward", "backward"),
    ],
    hints=(
        "Take 2 ranks, one sample, and a bias of 10. Each rank adds 5 before the all-reduce. If "
        "the bias grows by 1 on one rank, by how much does the output grow? In one process it "
        "grows by 1.",
        "The products are summands, and have to be added up; the bias is there once. A share of "
        "the bias on each rank makes the forward right, and the backward wrong.",
        "Leave the bias out of F.linear. What has left the parallel region is the same on all "
        "ranks: there every rank adds the whole bias.",
    ),
)  # fmt: skip
