"""The keys of another rank's piece that a query may see."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

FINDS_A_BUG = True


def differs(call, wanted, got) -> str:
    rank, source, _ = call
    for query, pair in enumerate(zip(wanted, got)):
        if pair[0] != pair[1]:
            what = f"rank {rank}, keys of rank {source}, query {query}"
            return f"{what}: expected {pair[0]}, got {pair[1]}"
    return ""


EXERCISE = Formula(
    "visible",
    cases={
        "its own piece, 3 places": [(0, 0, 3)],
        "the piece before": [(1, 0, 3)],
        "the piece behind": [(0, 1, 3)],
        "its own piece, later in the text": [(2, 2, 4)],
        "a piece long before": [(3, 0, 2)],
        "a piece long behind": [(0, 3, 2)],
        "the piece before, 6 places": [(1, 0, 6), (2, 1, 6), (1, 1, 6)],
        "pieces of one place": [(0, 0, 1), (1, 0, 1), (0, 1, 1)],
    },
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    right=lambda calls, values: f"{sum(map(sum, values[0]))} of {calls[0][2] ** 2} pairs",
    asked="a tensor of bool, (length, length)",
    hints=(
        "Rank 1's first query is at place `length` of the text. Which keys of rank 0 may it see?",
        "Make the places of the queries, rank * length + torch.arange(length), and those of the "
        "keys. A key is visible if its place is not larger than the query's.",
    ),
)  # fmt: skip
