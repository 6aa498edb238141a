"""Numbers by their addresses, from the files of many ranks. The truth looks them up in a dict."""

import operator

import torch

from ..kit import Formula
from ..kit.values import text_of

GARBAGE = -77.0  # what is saved of padding


def saved(*files, dtype=torch.float32):
    """Files from lists of addresses: the number at address k is 10 k, or what stands for it."""
    return [(torch.tensor(addresses, dtype=torch.int64),
             torch.tensor([GARBAGE if k == 0 else 10.0 * k for k in addresses]).to(dtype))
            for addresses in files]  # fmt: skip


def given(case, files, wanted, dtype=torch.float32):
    return case, [(saved(*files, dtype=dtype), torch.tensor(wanted, dtype=torch.int64))]


def described(function):
    """A function that gives what is looked at in the tensor of another one."""

    def describe(files, wanted):
        try:
            got = function(files, wanted)
        except ValueError:
            return looks("ValueError")
        if not isinstance(got, torch.Tensor):
            return got
        return looks("nothing", str(got.dtype), got.double())

    return describe


def looks(raises, dtype="", numbers=()) -> dict:
    numbers = torch.as_tensor(numbers, dtype=torch.float64)
    return {"raises": raises, "dtype": dtype, "numbers": numbers}


class OfTensors(Formula):
    def examine(self, answer):
        return super().examine(described(answer))


def looked_up(files, wanted):
    known = {0: 0.0}
    for addresses, numbers in files:
        pairs = zip(addresses.tolist(), numbers.tolist())
        known |= {k: value for k, value in pairs if k != 0}
    if not set(wanted.tolist()) <= set(known):
        raise ValueError("no file has it")
    return torch.tensor([known[k] for k in wanted.tolist()], dtype=files[0][1].dtype)


# ---- Mistakes: wrong functions ---


def together(files):
    return torch.cat([of for of, _ in files]), torch.cat([of for _, of in files])


def one_after_another(files, wanted):
    return together(files)[1][: len(wanted)]


def by_place(files, wanted):
    return together(files)[1][wanted - 1]


def into(files, wanted, put, padding=True, missing=True, dtype=None):
    addresses, numbers = together(files)
    whole = torch.zeros(1 + max(int(wanted.max()), int(addresses.max())),
                        dtype=dtype or numbers.dtype)  # fmt: skip
    put(whole, addresses, numbers)
    if padding:
        whole[0] = 0
    if missing and not set(wanted.tolist()) <= {0, *addresses.tolist()}:
        raise ValueError
    return whole[wanted]


def copied(whole, addresses, numbers):
    whole[addresses] = numbers


def added(whole, addresses, numbers):
    whole.index_add_(0, addresses, numbers)


def ascending(files, wanted):
    return looked_up(files, wanted.sort().values)


def each_once(files, wanted):
    return looked_up(files, torch.tensor(list(dict.fromkeys(wanted.tolist()))))


def without_padding(files, wanted):
    return looked_up(files, wanted[wanted > 0])


def padding_has_to_be_there(files, wanted):
    if 0 in wanted.tolist() and 0 not in together(files)[0].tolist():
        raise ValueError
    return looked_up(files, wanted)


def of_the_first_file(files, wanted):
    return looked_up(files[:1], wanted)


def skips_missing(files, wanted):
    known = torch.cat([torch.zeros(1, dtype=torch.int64), together(files)[0]])
    return looked_up(files, wanted[torch.isin(wanted, known)])


def differs(call, wanted, got) -> str:
    if got["raises"] != wanted["raises"]:
        if wanted["raises"] == "nothing":
            return "it raised ValueError, and each number is there"
        return f"an address is in no file: expected a ValueError, got {text_of(got['numbers'])}"
    if got["dtype"] != wanted["dtype"]:
        return f"it is of {got['dtype']}, expected {wanted['dtype']}"
    return f"expected {text_of(wanted['numbers'])}, got {text_of(got['numbers'])}"


EXERCISE = OfTensors(
    "11.2",
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
        given("one is missing", [[1, 2], [4, 5]], [2, 3, 4]),
        given("one is missing behind all others", [[1, 2], [3]], [3, 9]),
    ]),
    truth=described(looked_up),
    same=operator.eq,  # nothing is computed
    told=lambda calls, values: (
        "refused" if values[0]["raises"] != "nothing" else f"{len(values[0]['numbers'])} numbers"
    ),
    differs=differs,
    asked="a tensor",
    shape="asked is one flat tensor, as long as `wanted`",
    mistakes=[(why, described(function)) for why, function in {
        "these are the first numbers of the files, one file after another. Only the addresses say "
        "which number is which: the files may come in any order": one_after_another,
        "an address is no place in the files: ranks that were cut by columns have saved every "
        "second number. Each number's address stands beside it": by_place,
        "the address 0 is padding: what is saved there means nothing, and what is wanted there "
        "is 0": lambda files, wanted: into(files, wanted, copied, padding=False),
        "a wanted address is in no file, and it got some number all the same. So a training would "
        "go on from a checkpoint without this weight, and nobody would notice: raise ValueError":
            lambda files, wanted: into(files, wanted, copied, missing=False),
        "an address in several files is a copy: all have the same number there, and it is taken "
        "once. It is no part of a sum": lambda files, wanted: into(files, wanted, added),
        "these numbers are in ascending order of their addresses, and not in the order of "
        "`wanted`": ascending,
        "an address may be wanted several times: then its number comes as often": each_once,
        "padding was left out: a shard with padding needs a number for each of its places":
            without_padding,
        "nobody has saved padding here, and nobody needs to: at the address 0 it is always 0":
            padding_has_to_be_there,
        "this looks into the first file alone: what a rank wants may lie in any of them":
            of_the_first_file,
        "a missing number was left out, so all that follow it move to another place: raise "
        "ValueError": skips_missing,
        "torch.zeros makes float32. Numbers that were saved in another dtype keep it":
            lambda files, wanted: into(files, wanted, copied, dtype=torch.float32),
    }.items()],
    errors={
        "out of bounds": "the largest address may be in any file, or be wanted and in none: the "
        "table of all numbers has to reach that far",
        "out of range": "the largest address may be in any file, or be wanted and in none: the "
        "table of all numbers has to reach that far",
        "KeyError": "an address that no file has: raise ValueError. And 0 is padding: it is in "
        "no file, perhaps, and no error",
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
