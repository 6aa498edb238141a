"""Numbers by their addresses, from the files of many ranks. The truth looks them up in a dict."""

import operator

import torch

from coursekit.kit import Formula
from coursekit.kit.results import text_of

from .cases import describe_outcome
from .truth import MISTAKES, truth

GARBAGE = -77.0  # the number that is saved as padding

TWICE = "an address may be in a file twice: these are copies, and one of them is taken"

RAISE = "if a wanted address is in no file, ValueError is asked"


def tens(address) -> float:
    return 10.0 * address


def make_signed_number(address) -> float:
    """Return a number like an average's: some are negative, and without gradients it is 0."""
    return 10.0 * (address - 2)


def make_files(*files, dtype=torch.float32, number=tens):
    """Make files from lists of addresses: the number at address k is number(k), or GARBAGE at 0."""
    return [(torch.tensor(addresses, dtype=torch.int64),
             torch.tensor([GARBAGE if k == 0 else number(k) for k in addresses]).to(dtype))
            for addresses in files]  # fmt: skip


def make_case(case, files, wanted, dtype=torch.float32, number=tens):
    files = make_files(*files, dtype=dtype, number=number)
    return case, [(files, torch.tensor(wanted, dtype=torch.int64))]


class TensorFormula(Formula):
    def examine(self, answer):
        return super().examine(describe_outcome(answer))


def differs(call, wanted, got) -> str:
    if got["raises"] != wanted["raises"]:
        if not got["dtype"]:
            return f"an address is in no file: {got['raises']}, and has to raise it"
        return f"an address is in no file: expected a ValueError, got {text_of(got['numbers'])}"
    if got["dtype"] != wanted["dtype"]:
        return f"it is of {got['dtype']}, expected {wanted['dtype']}"
    return f"expected {text_of(wanted['numbers'])}, got {text_of(got['numbers'])}"


EXERCISE = TensorFormula(
    "find_numbers",
    lab="capstone_state",
    cases=dict(
        [
            make_case("two files, all of them", [[1, 2, 3], [4, 5, 6]], [1, 2, 3, 4, 5, 6]),
            make_case("one rank of three", [[1, 2, 3], [4, 5, 6]], [3, 4]),
            make_case("cut by columns", [[1, 3, 5, 7], [2, 4, 6, 8]], [5, 6, 7, 8]),
            make_case("in any order, one twice", [[6, 2, 4], [1, 5, 3]], [5, 2, 5, 1]),
            make_case("copies", [[1, 2, 3], [1, 2, 3], [3, 4]], [2, 3, 4]),
            make_case("padding in files", [[1, 2], [3, 0]], [2, 3]),
            make_case("padding wanted", [[1, 2], [3, 0]], [3, 0, 0]),
            make_case("padding wanted, and in no file", [[1, 2, 3], [4]], [4, 0]),
            make_case("float64", [[2, 1], [3]], [1, 2, 3], torch.float64),
            make_case("bfloat16", [[2, 1], [3]], [3, 1], torch.bfloat16),
            make_case(
                "large addresses, bfloat16", [[255, 256], [257, 258]], [256, 257], torch.bfloat16
            ),
            make_case("twice in one file", [[2, 1, 2], [3]], [2, 3]),
            make_case("a short file, and a long one", [[4], [1, 2, 3]], [3, 4]),
            make_case(
                "averages, one of them 0", [[1, 2], [3, 4]], [2, 3, 4], number=make_signed_number
            ),
            make_case(
                "averages, one negative", [[1, 2], [3, 4]], [1, 3], number=make_signed_number
            ),
            make_case("one is missing", [[1, 2], [4, 5]], [2, 3, 4]),
            make_case("one is missing behind all others", [[1, 2], [3]], [3, 9]),
        ]
    ),
    truth=truth,
    same=operator.eq,  # exact, because nothing is computed
    right=lambda calls, values: (
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
        "converted to Scalar": TWICE,
        "one element tensors": TWICE,
        "single element": TWICE,
        "AssertionError": RAISE,
        "StopIteration": RAISE,
        "IndexError": RAISE,
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
)
