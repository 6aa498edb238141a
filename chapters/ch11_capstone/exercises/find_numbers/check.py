"""Numbers by their addresses, from the files of many ranks. The truth looks them up in a dict."""

import operator

import torch

from coursekit.kit import Formula
from coursekit.kit.results import text_of

from .cases import described
from .truth import MISTAKES, truth

GARBAGE = -77.0  # what is saved of padding

TWICE = "an address may be in a file twice: these are copies, and one of them is taken"

RAISE = "if a wanted address is in no file, ValueError is asked"


def tens(address) -> float:
    return 10.0 * address


def around_zero(address) -> float:
    """As averages are: some are negative, and that of what never had a gradient is 0."""
    return 10.0 * (address - 2)


def saved(*files, dtype=torch.float32, number=tens):
    """Files from lists of addresses: the number at address k is number(k), or that of padding."""
    return [(torch.tensor(addresses, dtype=torch.int64),
             torch.tensor([GARBAGE if k == 0 else number(k) for k in addresses]).to(dtype))
            for addresses in files]  # fmt: skip


def given(case, files, wanted, dtype=torch.float32, number=tens):
    files = saved(*files, dtype=dtype, number=number)
    return case, [(files, torch.tensor(wanted, dtype=torch.int64))]


class OfTensors(Formula):
    def examine(self, answer):
        return super().examine(described(answer))


def differs(call, wanted, got) -> str:
    if got["raises"] != wanted["raises"]:
        if not got["dtype"]:
            return f"an address is in no file: {got['raises']}, and has to raise it"
        return f"an address is in no file: expected a ValueError, got {text_of(got['numbers'])}"
    if got["dtype"] != wanted["dtype"]:
        return f"it is of {got['dtype']}, expected {wanted['dtype']}"
    return f"expected {text_of(wanted['numbers'])}, got {text_of(got['numbers'])}"


EXERCISE = OfTensors(
    "find_numbers",
    lab="capstone_state",
    cases=dict([
        given("two files, all of them", [[1, 2, 3], [4, 5, 6]], [1, 2, 3, 4, 5, 6]),
        given("one rank of three", [[1, 2, 3], [4, 5, 6]], [3, 4]),
        given("cut by columns", [[1, 3, 5, 7], [2, 4, 6, 8]], [5, 6, 7, 8]),
        given("in any order, one twice", [[6, 2, 4], [1, 5, 3]], [5, 2, 5, 1]),
        given("copies", [[1, 2, 3], [1, 2, 3], [3, 4]], [2, 3, 4]),
        given("padding in files", [[1, 2], [3, 0]], [2, 3]),
        given("padding wanted", [[1, 2], [3, 0]], [3, 0, 0]),
        given("padding wanted, and in no file", [[1, 2, 3], [4]], [4, 0]),
        given("float64", [[2, 1], [3]], [1, 2, 3], torch.float64),
        given("bfloat16", [[2, 1], [3]], [3, 1], torch.bfloat16),
        given("large addresses, bfloat16", [[255, 256], [257, 258]], [256, 257], torch.bfloat16),
        given("twice in one file", [[2, 1, 2], [3]], [2, 3]),
        given("a short file, and a long one", [[4], [1, 2, 3]], [3, 4]),
        given("averages, one of them 0", [[1, 2], [3, 4]], [2, 3, 4], number=around_zero),
        given("averages, one negative", [[1, 2], [3, 4]], [1, 3], number=around_zero),
        given("one is missing", [[1, 2], [4, 5]], [2, 3, 4]),
        given("one is missing behind all others", [[1, 2], [3]], [3, 9]),
    ]),
    truth=truth,
    same=operator.eq,  # nothing is computed
    told=lambda calls, values: (
        "refused" if values[0]["raises"] != "nothing" else f"{len(values[0]['numbers'])} numbers"
    ),
    differs=differs,
    asked="a tensor",
    shape="asked is one flat tensor, as long as `wanted`",
    mistakes=MISTAKES,
    errors={
        "out of bounds": "the largest address may be in any file, or be wanted and in none: the "
        "table of all numbers has to reach that far",
        "out of range": "the largest address may be in any file, or be wanted and in none: the "
        "table of all numbers has to reach that far",
        "KeyError": "an address that no file has: raise ValueError. And 0 is padding: it is in "
        "no file, perhaps, and no error",
        "converted to Scalar": TWICE, "one element tensors": TWICE, "single element": TWICE,
        "AssertionError": RAISE, "StopIteration": RAISE, "IndexError": RAISE,
        "dtypes match": "numbers have the dtype of the files: float32, float64 or bfloat16",
    },
    hints=(
        "Imagine the whole model as one long table, in which an address is a place. Each file "
        "fills some places.",
        "table[addresses] = numbers puts a file in its place. How long is the table, and of which "
        "dtype? Then table[wanted] reads it.",
        "The place 0 becomes 0 when all files are in. A second table, of bools, knows which places "
        "were filled.",
    ),
)  # fmt: skip
