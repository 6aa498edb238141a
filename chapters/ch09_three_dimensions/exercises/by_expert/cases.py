"""The counts of rows for which the order is asked."""

import torch


def counts_of(*rows):
    return torch.tensor(rows)


CASES = {
    "the statement's example": [(counts_of([2, 1], [1, 2]),)],
    "3 ranks, 2 experts": [(counts_of([1, 2], [0, 3], [2, 1]),)],
    "2 ranks, 3 experts": [(counts_of([2, 0, 1], [1, 2, 2]),)],
    "an expert that nobody needs": [(counts_of([1, 0, 2], [2, 0, 1]),)],
    "a rank that sends nothing": [(counts_of([1, 1], [0, 0], [2, 1]),)],
    "one expert": [(counts_of([2], [3]),)],
    "one rank": [(counts_of([2, 1, 3]),)],
    "nothing came": [(counts_of([0, 0], [0, 0]),)],
    "many rows": [(counts_of([20, 3, 9], [0, 17, 4], [5, 5, 30]),)],
}
