"""The right results, and the results of known mistakes."""

import torch

from .cases import describe_outcome, is_missing


def look_up(files, wanted):
    known = {0: 0.0}
    for addresses, numbers in files:
        pairs = zip(addresses.tolist(), numbers.tolist())
        known |= {k: value for k, value in pairs if k != 0}
    if not set(wanted.tolist()) <= set(known):
        raise ValueError("no file has it")
    return torch.tensor([known[k] for k in wanted.tolist()], dtype=files[0][1].dtype)


def together(files):
    return torch.cat([of for of, _ in files]), torch.cat([of for _, of in files])


def one_after_another(files, wanted):
    return together(files)[1][: len(wanted)]


def index_by_place(files, wanted):
    return together(files)[1][wanted - 1]


def read_through_whole(files, wanted, put, padding=True, missing=True, dtype=None):
    addresses, numbers = together(files)
    whole = torch.zeros(1 + max(int(wanted.max()), int(addresses.max())),
                        dtype=dtype or numbers.dtype)  # fmt: skip
    put(whole, addresses, numbers)
    if padding:
        whole[0] = 0
    if missing and is_missing(files, wanted):
        raise ValueError
    return whole[wanted]


def copy_numbers(whole, addresses, numbers):
    whole[addresses] = numbers


def add_numbers(whole, addresses, numbers):
    whole.index_add_(0, addresses, numbers)


def add_each_file(whole, addresses, numbers):
    whole[addresses] += numbers  # a repeated address counts once


def fill_by_file(files, wanted, put):
    last = 1 + max(int(wanted.max()), int(together(files)[0].max()))
    whole = files[0][1].new_zeros(last)
    for addresses, numbers in files:
        put(whole, addresses, numbers)
    whole[0] = 0
    if is_missing(files, wanted):
        raise ValueError
    return whole[wanted]


def sort_wanted(files, wanted):
    return look_up(files, wanted.sort().values)


def each_once(files, wanted):
    return look_up(files, torch.tensor(list(dict.fromkeys(wanted.tolist()))))


def skip_padding(files, wanted):
    return look_up(files, wanted[wanted > 0])


def padding_has_to_be_there(files, wanted):
    if 0 in wanted.tolist() and 0 not in together(files)[0].tolist():
        raise ValueError
    return look_up(files, wanted)


def read_first_file(files, wanted):
    return look_up(files[:1], wanted)


def skips_missing(files, wanted):
    known = torch.cat([torch.zeros(1, dtype=torch.int64), together(files)[0]])
    return look_up(files, wanted[torch.isin(wanted, known)])


def detect_missing_by_value(sentinel):
    """Return a lookup that takes an address as missing if it has the number of an empty place."""

    def find(files, wanted):
        addresses, numbers = together(files)
        whole = numbers.new_full((1 + max(int(wanted.max()), int(addresses.max())),), sentinel)
        whole[addresses] = numbers
        whole[0] = 0
        if (whole[wanted][wanted > 0] == sentinel).any():
            raise ValueError
        return whole[wanted]

    return find


def largest(whole, addresses, numbers):
    whole.scatter_reduce_(0, addresses, numbers, "amax")


def round_addresses(files, wanted):
    return look_up([(of.to(numbers.dtype).long(), numbers) for of, numbers in files], wanted)


def both_rounded(files, wanted):
    return round_addresses(files, wanted.to(files[0][1].dtype).long())


def truncate_to_first_length(files, wanted):
    length = len(files[0][0])
    return look_up([(of[:length], numbers[:length]) for of, numbers in files], wanted)


truth = describe_outcome(look_up)

MISTAKES = [
    (why, describe_outcome(function))
    for why, function in {
        "these are the first numbers of the files, one file after another. Only the addresses say "
        "which number is which: the files may come in any order": one_after_another,
        "an address is no place in the files: ranks that were cut by columns have saved every "
        "second number. Each number's address stands beside it": index_by_place,
        "the address 0 is padding: what is saved there means nothing, and what is wanted there "
        "is 0": lambda files, wanted: read_through_whole(
            files, wanted, copy_numbers, padding=False
        ),
        "a wanted address is in no file, and it got some number all the same. So a training would "
        "go on from a checkpoint without this weight, and nobody would notice: raise "
        "ValueError": lambda files, wanted: read_through_whole(
            files, wanted, copy_numbers, missing=False
        ),
        "an address in several files is a copy: all have the same number there, and it is taken "
        "once. It is no part of a sum": lambda files, wanted: read_through_whole(
            files, wanted, add_numbers
        ),
        "an address in several files is a copy, and here its copies are added up. It is no part of "
        "a sum": lambda files, wanted: fill_by_file(files, wanted, add_each_file),
        "these numbers are in ascending order of their addresses, and not in the order of "
        "`wanted`": sort_wanted,
        "an address may be wanted several times: then its number comes as often": each_once,
        "padding was left out: a shard with padding needs a number for each of its "
        "places": skip_padding,
        "nobody has saved padding here, and nobody needs to: at the address 0 it is always "
        "0": padding_has_to_be_there,
        "this looks into the first file alone: what a rank wants may lie in any of "
        "them": read_first_file,
        "a missing number was left out, so all that follow it move to another place: raise "
        "ValueError": skips_missing,
        "torch.zeros makes float32. Numbers that were saved in another dtype keep "
        "it": lambda files, wanted: read_through_whole(
            files, wanted, copy_numbers, dtype=torch.float32
        ),
        "a tensor made of Python's numbers is of float32. Numbers that were saved in another "
        "dtype keep it": lambda files, wanted: look_up(files, wanted).float(),
        "these are float64, whatever was saved. Numbers keep the dtype of the "
        "files": lambda files, wanted: look_up(files, wanted).double(),
        "a number may be 0, such as the average of gradients that were all 0. So 0 does not say "
        "that no file has it": detect_missing_by_value(0),
        "a number may be negative. So no number says by itself that no file has "
        "it": detect_missing_by_value(-10),
        "a number may be negative: then the largest of it and a 0 in the table is "
        "0": lambda files, wanted: read_through_whole(files, wanted, largest),
        "an address is a whole number: in bfloat16, which rounds all above 256, two addresses "
        "become one": both_rounded,
        "addresses are whole numbers, and bfloat16 rounds all above 256: then 257 is not "
        "found": round_addresses,
        "this looks at as many numbers of each file as the first one has. A file has a length of "
        "its own": truncate_to_first_length,
    }.items()
]
