"""The order in which rows from several ranks go through the experts."""

import torch

from coursekit.kit import Formula, Wrong

from .cases import CASES, counts_of
from .truth import MISTAKES, expert_of_each, truth


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"{len(wanted)} rows came, and got are {len(got)} numbers"
    if sorted(got) != sorted(wanted):
        return f"expected {wanted}, got {got}: each row is taken once"
    return f"expected {wanted}, got {got}"


def not_stable(found, case) -> str:
    """Return the diagnosis of a sort by experts that reorders the rows of one expert, or ""."""
    for (counts,), got in zip(EXERCISE.cases[case], found[case]):
        experts = expert_of_each(counts).tolist()
        if sorted(got) == list(range(len(experts))):
            in_order = [experts[row] for row in got]
            if in_order == sorted(in_order):
                return "rows of one expert stay in the order in which they came: stable=True"
    return ""


def takes_rows(answer):
    """Yield a line if an empty order can index rows; raise `Wrong` if its dtype cannot."""
    order = answer(counts_of([0, 0], [0, 0]))
    if isinstance(order, torch.Tensor) and order.dtype != torch.long:
        what = f"the order of no rows is a tensor of {order.dtype}"
        why = "x[order] takes whole numbers: torch.tensor([]) has none, and is of float32"
        raise Wrong("nothing came", what, why)
    yield "nothing came: an order of whole numbers"


EXERCISE = Formula(
    "by_expert",
    lab="expert_parallel",
    cases=CASES,
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    right=lambda calls, values: f"{values[0]}" if len(values[0]) < 10 else f"{len(values[0])} rows",
    also=takes_rows,
    explain=not_stable,
    whole="numbers of rows are indices: whole numbers",
    asked="a tensor with one whole number for each row",
    hints=(
        "Write down the expert of each row, in the order in which the rows came. For the example "
        "that is 0, 0, 1, 0, 1, 1.",
        "torch.arange(experts).repeat(ranks) has one number for each entry of counts. "
        "repeat_interleave repeats each of them as often as that entry says.",
        "argsort(stable=True) gives the numbers of the rows, sorted by what they hold; those that "
        "hold the same stay in order.",
    ),
)  # fmt: skip
