"""Tensors one after another in a padded flat tensor."""

import operator

import torch

from coursekit.kit import Formula
from coursekit.kit.collective_exercise import numbers
from coursekit.kit.results import text_of

from .cases import describe_output
from .truth import MISTAKES, truth


def make_case(case, shapes, n, dtype=torch.float64):
    """Return a case's description and its list of calls."""
    tensors = [numbers(0, shape, dtype, salt) for salt, shape in enumerate(shapes)]
    if case == "a transposed one":
        tensors[0] = tensors[0].t()
    return f"{case}: shapes {' '.join(str(list(x.shape)) for x in tensors)}, n = {n}", [
        (tensors, n)
    ]


class TensorFormula(Formula):
    """A formula that compares descriptions of tensors."""

    def examine(self, answer):
        return super().examine(describe_output(answer))


def differs(call, wanted, got) -> str:
    if got["dtype"] != wanted["dtype"]:
        return f"it is of {got['dtype']}, expected {wanted['dtype']}"
    if got["numbers"] != wanted["numbers"]:
        return f"expected {text_of(wanted['numbers'])}, got {text_of(got['numbers'])}"
    return "the result shares memory with the tensor that was given"


def what_follows(found, case) -> str:
    """Return the diagnosis if only the padding is wrong, which torch.empty changes every time."""
    ((tensors, n),) = EXERCISE.cases[case]
    got, wanted = found[case][0]["numbers"], EXERCISE.truth(tensors, n)["numbers"].tolist()
    length = sum(x.numel() for x in tensors)
    if len(got) != len(wanted) or got[:length] != wanted[:length] or length == len(got):
        return ""
    return "what follows the numbers is not zero: torch.empty takes memory as it finds it"


FIRST_RESHAPED = (
    "torch.cat lays tensors of one dimension one after another: reshape(-1) each of them first"
)

NEGATIVE = "a negative number of zeros: how many are missing is -elements % n, from 0 to n - 1"

EXERCISE = TensorFormula(
    "flatten_padded",
    lab="zero",
    cases=dict([
        make_case("padding", [(2, 3), (3,)], 4),
        make_case("n divides", [(4,), (2, 2)], 4, torch.float32),
        make_case("one tensor, n divides", [(3, 2)], 3),
        make_case("fewer numbers than ranks", [(1, 2)], 5, torch.float32),
        make_case("one without dimensions", [(), (3,)], 3),
        make_case("bfloat16", [(5,), (2, 4)], 4, torch.bfloat16),
        make_case("one rank", [(2,), (5, 1)], 1),
        make_case("a transposed one", [(4, 3), (2,)], 4),
    ]),
    truth=truth,
    same=operator.eq,  # nothing is computed, so nothing is rounded
    right=lambda calls, values: f"{len(values[0]['numbers'])} numbers",
    differs=differs,
    asked="a tensor",
    shape="asked is one tensor: whoever needs chunks cuts it",
    explain=what_follows,
    mistakes=MISTAKES,
    errors={
        "not compatible with input tensor's size": "view(-1) needs numbers that lie one after "
        "another in memory, which those of a transposed tensor do not: reshape(-1) copies if it "
        "has to",
        "zero-dimensional": "torch.cat takes no tensor without dimensions: reshape(-1) makes it "
        "one with one dimension",
        "Sizes of tensors must match": FIRST_RESHAPED,
        "Tensors must have same number of dimensions": FIRST_RESHAPED,
        "not generator": "torch.cat takes a list, no generator: [… for x in tensors]",
        "can't be negative": NEGATIVE,
        "negative dimension": NEGATIVE,
    },
    hints=(
        "torch.cat lays tensors of one dimension one after another, in a new one. Which method "
        "gives any tensor one dimension?",
        "How many zeros are missing to the next multiple of n? None, if it is one already: "
        "-elements % n.",
        "tensors[0].new_zeros(padding) has the type that torch.cat needs, and is on the right "
        "device.",
    ),
)  # fmt: skip
