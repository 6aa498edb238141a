"""The pairs of a query and a key on each rank, if several documents are packed into one row."""

import torch

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def zigzag(context, n):
    rows = torch.arange(context).view(2 * n, -1)
    return [rows[[rank, -1 - rank]].flatten() for rank in range(n)]


def in_a_row(*lengths):
    return list(torch.arange(sum(lengths)).split(list(lengths)))


EXERCISE = Formula(
    "pairs_per_rank",
    cases={
        "documents of 3, 1 and 4 tokens, 2 ranks": [([0, 3, 4, 8], zigzag(8, 2))],
        "documents of 3 and 5 tokens, 2 ranks": [([0, 3, 8], zigzag(8, 2))],
        "one document, 3 ranks": [([0, 12], zigzag(12, 3))],
        "a document begins with a rank's piece": [([0, 4, 8], in_a_row(4, 4))],
        "pieces of unequal length": [([0, 2, 7, 9], in_a_row(5, 1, 3))],
        "each token is a document": [([0, 1, 2, 3, 4], zigzag(4, 2))],
        "one rank": [([0, 5, 6], in_a_row(6))],
        "three documents, 1,024 tokens, 4 ranks": [([0, 384, 896, 1024], zigzag(1024, 4))],
    },
    truth=truth,
    mistakes=MISTAKES,
    whole="pairs are counted: whole numbers",
    asked="a list with the pairs of each rank",
    shape="one int for each rank, in a list, and not the sum of all ranks",
    errors={"expected Tensor": "cu_seqlens is a list: torch.tensor makes a tensor of it"},
    hints=(
        "How many keys does a query see that is at place p of the row, if its document begins at "
        "place s?",
        "It sees p - s + 1 keys. On which rank they are makes no difference.",
        "Where does the document of a place begin? It is the last start that is not later than the "
        "place: torch.bucketize(mine, starts, right=True) - 1 is its index, or bisect_right.",
    ),
)  # fmt: skip
