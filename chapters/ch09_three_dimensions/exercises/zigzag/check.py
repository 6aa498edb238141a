"""Two pieces of the text for each rank, so that all ranks have the same amount to compute."""

from coursekit.kit import Formula
from coursekit.kit.results import text_of

from .truth import MISTAKES, truth


def pairs_computed(places) -> list[int]:
    return [sum(place + 1 for place in of_rank) for of_rank in places]


def describe_pairs(calls, values) -> str:
    counts = pairs_computed(values[0])
    return f"pairs of query and key: {text_of(sorted(set(counts)))} on each rank"


EXERCISE = Formula(
    "zigzag",
    lab="long_contexts",
    cases={
        "8 places, 2 ranks": [(8, 2)],
        "12 places, 3 ranks": [(12, 3)],
        "16 places, 4 ranks": [(16, 4)],
        "48 places, 4 ranks": [(48, 4)],
        "one rank": [(6, 1)],
        "pieces of one place": [(10, 5)],
    },
    truth=truth,
    mistakes=MISTAKES,
    right=describe_pairs,
    whole="places are indices: whole numbers",
    asked="a list with a tensor of places for each rank",
    errors={"expected Tensor": "torch.cat takes a list of tensors"},
    hints=(
        "torch.arange(context).chunk(2 * n) gives the pieces. Which two does rank 0 get, and which "
        "rank 1?",
        "torch.cat([pieces[rank], pieces[2 * n - 1 - rank]]), for each rank.",
    ),
)  # fmt: skip
