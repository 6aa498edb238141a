"""Tensors one after another in a flat one, padded."""

import operator

import torch

from ..kit import Formula
from ..kit.trials import numbers
from ..kit.values import text_of


def given(case, shapes, n, dtype=torch.float64):
    """A case with its arguments."""
    tensors = [numbers(0, shape, dtype, salt) for salt, shape in enumerate(shapes)]
    if case == "a transposed one":
        tensors[0] = tensors[0].t()
    return f"{case}: shapes {' '.join(str(list(x.shape)) for x in tensors)}, n = {n}", [
        (tensors, n)
    ]


def described(function):
    """A function that gives what is looked at in the tensor of another one."""

    def describe(tensors, n):
        places = {x.untyped_storage().data_ptr() for x in tensors}
        got = function(tensors, n)
        if not isinstance(got, torch.Tensor):
            return got
        is_shared = got.untyped_storage().data_ptr() in places
        return {"dtype": str(got.dtype), "numbers": got, "is_shared": is_shared}

    return describe


class OfTensors(Formula):
    def examine(self, answer):
        return super().examine(described(answer))


def flat(tensors):
    return torch.cat([x.reshape(-1) for x in tensors])


def with_zeros(x, count):
    return torch.cat([x, x.new_zeros(count)])


def padded(tensors, n):
    """Number by number."""
    values = [value for x in tensors for value in x.flatten().tolist()]
    return tensors[0].new_tensor(values + [0.0] * (-len(values) % n))


def in_order_of_memory(x):
    return x if x.is_contiguous() else x.t()


def differs(call, wanted, got) -> str:
    if got["dtype"] != wanted["dtype"]:
        return f"it is of {got['dtype']}, expected {wanted['dtype']}"
    if got["numbers"] != wanted["numbers"]:
        return f"expected {text_of(wanted['numbers'])}, got {text_of(got['numbers'])}"
    return "the result shares memory with the tensor that was given"


def what_follows(found, case) -> str:
    """Whether nothing is wrong but the padding: torch.empty gives other numbers each time."""
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

EXERCISE = OfTensors(
    "6.2",
    "flatten_padded",
    lab="zero",
    cases=dict([
        given("padding", [(2, 3), (3,)], 4),
        given("n divides", [(4,), (2, 2)], 4, torch.float32),
        given("one tensor, n divides", [(3, 2)], 3),
        given("fewer numbers than ranks", [(1, 2)], 5, torch.float32),
        given("one without dimensions", [(), (3,)], 3),
        given("bfloat16", [(5,), (2, 4)], 4, torch.bfloat16),
        given("one rank", [(2,), (5, 1)], 1),
        given("a transposed one", [(4, 3), (2,)], 4),
    ]),
    truth=described(padded),
    same=operator.eq,  # nothing is computed
    told=lambda calls, values: f"{len(values[0]['numbers'])} numbers",
    differs=differs,
    asked="a tensor",
    shape="asked is one tensor: whoever needs chunks cuts it",
    explain=what_follows,
    mistakes=[(why, described(function)) for why, function in {
        "without padding: zeros have to follow, until n divides the length":
            lambda tensors, n: flat(tensors),
        "n zeros too many: if n divides the length already, nothing is to be added. "
        "n - elements % n is n then, -elements % n is 0":
            lambda tensors, n: with_zeros(flat(tensors), n - len(flat(tensors)) % n),
        "elements % n zeros are added. That is how many stick out over the last multiple of n; "
        "missing to the next one are -elements % n":
            lambda tensors, n: with_zeros(flat(tensors), len(flat(tensors)) % n),
        "n zeros are added: only as many as are missing to a multiple of n":
            lambda tensors, n: with_zeros(flat(tensors), n),
        "each tensor is padded by itself: padding comes once, at the end of all":
            lambda tensors, n: flat([padded([x], n) for x in tensors]),
        "the zeros come first: they are to follow the numbers":
            lambda tensors, n: flat([padded(tensors, n)[len(flat(tensors)) :], *tensors]),
        "the numbers that stick out over a multiple of n are cut off: the last parameters would "
        "be lost": lambda tensors, n: flat(tensors)[: len(flat(tensors)) // n * n],
        "the tensors come in another order: the first one first":
            lambda tensors, n: padded(tensors[::-1], n),
        "a transposed tensor is read in the order of its memory: row by row, as it looks, is "
        "what reshape(-1) does":
            lambda tensors, n: padded(list(map(in_order_of_memory, tensors)), n),
        "the numbers are right: leave them in one dimension, unit.flat.chunk(n) cuts them":
            lambda tensors, n: padded(tensors, n).view(n, -1),
        "torch.zeros makes float32, and torch.cat the wider of two types: tensors[0].new_zeros "
        "makes zeros of that tensor's type, on its device":
            lambda tensors, n: torch.cat([flat(tensors), torch.zeros(-len(flat(tensors)) % n)]),
        "a new tensor is asked for. view makes none, and reshape only where it has to: gradients "
        "would be written over while they are reduced. torch.cat copies":
            lambda tensors, n: padded(tensors, n) if tensors[1:] or len(flat(tensors)) % n
            else tensors[0].view(-1),
    }.items()],
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
