"""The order in which rows that came from several ranks go through the experts."""

import torch

from ...course.checking import Wrong
from ..kit import Formula
from ..kit.tables import tabled


def truth(counts):
    """By writing down what each row is, and looking for one expert after another."""
    rows = [
        (rank, expert)
        for rank, of_rank in enumerate(counts.tolist())
        for expert, count in enumerate(of_rank)
        for _ in range(count)
    ]
    experts = range(counts.shape[1])
    return [k for wanted in experts for k, (_, expert) in enumerate(rows) if expert == wanted]


def counts_of(*rows):
    return torch.tensor(rows)


# ---- Mistakes: wrong functions ---


def as_they_came(counts):
    return torch.arange(int(counts.sum()))


def other_way_round(counts):
    """Where each row goes, and not which row comes."""
    return torch.tensor(truth(counts), dtype=torch.long).argsort()


@tabled(lambda: EXERCISE.calls_tried())
def expert_of_each(counts):
    experts = torch.arange(counts.shape[1]).repeat(len(counts))
    return experts.repeat_interleave(counts.flatten())


def sorted_experts(counts):
    return expert_of_each(counts).sort().values


def last_rank_first(counts):
    """Rows of one expert turned round."""
    return expert_of_each(counts).flip(0).argsort(stable=True).mul(-1).add(int(counts.sum()) - 1)


def differs(call, wanted, got) -> str:
    if len(got) != len(wanted):
        return f"{len(wanted)} rows came, and got are {len(got)} numbers"
    if sorted(got) != sorted(wanted):
        return f"expected {wanted}, got {got}: each row is taken once"
    return f"expected {wanted}, got {got}"


def not_stable(found, case) -> str:
    """Of a sort by experts that lets rows of one expert change places."""
    for (counts,), got in zip(EXERCISE.cases[case], found[case]):
        experts = expert_of_each(counts).tolist()
        if sorted(got) == list(range(len(experts))):
            in_order = [experts[row] for row in got]
            if in_order == sorted(in_order):
                return "rows of one expert stay in the order in which they came: stable=True"
    return ""


def takes_rows(answer):
    """An order that is empty takes rows, too."""
    order = answer(counts_of([0, 0], [0, 0]))
    if isinstance(order, torch.Tensor) and order.dtype != torch.long:
        what = f"the order of no rows is a tensor of {order.dtype}"
        why = "x[order] takes whole numbers: torch.tensor([]) has none, and is of float32"
        raise Wrong("nothing came", what, why)
    yield "nothing came: an order of whole numbers"


EXERCISE = Formula(
    "9.20",
    "by_expert",
    lab="expert_parallel",
    cases={
        "the statement's example": [(counts_of([2, 1], [1, 2]),)],
        "3 ranks, 2 experts": [(counts_of([1, 2], [0, 3], [2, 1]),)],
        "2 ranks, 3 experts": [(counts_of([2, 0, 1], [1, 2, 2]),)],
        "an expert that nobody needs": [(counts_of([1, 0, 2], [2, 0, 1]),)],
        "a rank that sends nothing": [(counts_of([1, 1], [0, 0], [2, 1]),)],
        "one expert": [(counts_of([2], [3]),)],
        "one rank": [(counts_of([2, 1, 3]),)],
        "nothing came": [(counts_of([0, 0], [0, 0]),)],
        "many rows": [(counts_of([20, 3, 9], [0, 17, 4], [5, 5, 30]),)],
    },
    truth=truth,
    mistakes=[
        ("this is the order in which they came: rank after rank", as_they_came),
        ("these numbers say where each row goes. Asked is which row comes first, which second: "
         "x[order] has to be in the order of the experts", other_way_round),
        ("these are the experts of the rows. Asked are the numbers of the rows, in the order of "
         "their experts: argsort gives them", expert_of_each),
        ("these are the experts of the rows. Asked are the numbers of the rows, in the order of "
         "their experts: argsort gives them", sorted_experts),
        ("rows of one expert stay in the order in which they came: stable=True", last_rank_first),
    ],
    differs=differs,
    told=lambda calls, values: f"{values[0]}" if len(values[0]) < 10 else f"{len(values[0])} rows",
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
