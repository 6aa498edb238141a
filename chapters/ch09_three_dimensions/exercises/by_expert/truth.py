"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.tables import tabulate

from .cases import CASES


def truth(counts):
    """Write down each row's rank and expert, and return the rows of one expert after another."""
    rows = [
        (rank, expert)
        for rank, of_rank in enumerate(counts.tolist())
        for expert, count in enumerate(of_rank)
        for _ in range(count)
    ]
    experts = range(counts.shape[1])
    return [k for wanted in experts for k, (_, expert) in enumerate(rows) if expert == wanted]


def keep_row_order(counts):
    return torch.arange(int(counts.sum()))


def other_way_round(counts):
    """Return the position to which each row goes, not the row at each position."""
    return torch.tensor(truth(counts), dtype=torch.long).argsort()


@tabulate(lambda: [call for calls in CASES.values() for call in calls])
def expert_of_each(counts):
    experts = torch.arange(counts.shape[1]).repeat(len(counts))
    return experts.repeat_interleave(counts.flatten())


def sort_experts(counts):
    return expert_of_each(counts).sort().values


def reverse_rows_of_experts(counts):
    """Return an order in which the rows of each expert are reversed."""
    return expert_of_each(counts).flip(0).argsort(stable=True).mul(-1).add(int(counts.sum()) - 1)


MISTAKES = [
    ("this is the order in which they came: rank after rank", keep_row_order),
    ("these numbers say where each row goes. Asked is which row comes first, which second: "
     "x[order] has to be in the order of the experts", other_way_round),
    ("these are the experts of the rows. Asked are the numbers of the rows, in the order of "
     "their experts: argsort gives them", expert_of_each),
    ("these are the experts of the rows. Asked are the numbers of the rows, in the order of "
     "their experts: argsort gives them", sort_experts),
    ("rows of one expert stay in the order in which they came: stable=True",
     reverse_rows_of_experts),
]  # fmt: skip
