"""The right results, and the results of known mistakes."""

import torch

from .cases import describe_output


def flat(tensors):
    return torch.cat([x.reshape(-1) for x in tensors])


def append_zeros(x, count):
    return torch.cat([x, x.new_zeros(count)])


def flatten_by_number(tensors, n):
    """Return the right flat tensor, built number by number."""
    values = [value for x in tensors for value in x.flatten().tolist()]
    return tensors[0].new_tensor(values + [0.0] * (-len(values) % n))


def reorder_by_memory(x):
    return x if x.is_contiguous() else x.t()


truth = describe_output(flatten_by_number)

MISTAKES = [(why, describe_output(function)) for why, function in {
    "without padding: zeros have to follow, until n divides the length":
        lambda tensors, n: flat(tensors),
    "n zeros too many: if n divides the length already, nothing is to be added. "
    "n - elements % n is n then, -elements % n is 0":
        lambda tensors, n: append_zeros(flat(tensors), n - len(flat(tensors)) % n),
    "elements % n zeros are added. That is how many stick out over the last multiple of n; "
    "missing to the next one are -elements % n":
        lambda tensors, n: append_zeros(flat(tensors), len(flat(tensors)) % n),
    "n zeros are added: only as many as are missing to a multiple of n":
        lambda tensors, n: append_zeros(flat(tensors), n),
    "each tensor is padded by itself: padding comes once, at the end of all":
        lambda tensors, n: flat([flatten_by_number([x], n) for x in tensors]),
    "the zeros come first: they are to follow the numbers":
        lambda tensors, n: flat([flatten_by_number(tensors, n)[len(flat(tensors)) :], *tensors]),
    "the numbers that stick out over a multiple of n are cut off: the last parameters would "
    "be lost": lambda tensors, n: flat(tensors)[: len(flat(tensors)) // n * n],
    "the tensors come in another order: the first one first":
        lambda tensors, n: flatten_by_number(tensors[::-1], n),
    "a transposed tensor is read in the order of its memory: row by row, as it looks, is "
    "what reshape(-1) does":
        lambda tensors, n: flatten_by_number(list(map(reorder_by_memory, tensors)), n),
    "the numbers are right: leave them in one dimension, unit.flat.chunk(n) cuts them":
        lambda tensors, n: flatten_by_number(tensors, n).view(n, -1),
    "torch.zeros makes float32, and torch.cat the wider of two types: tensors[0].new_zeros "
    "makes zeros of that tensor's type, on its device":
        lambda tensors, n: torch.cat([flat(tensors), torch.zeros(-len(flat(tensors)) % n)]),
    "a new tensor is asked for. view makes none, and reshape only where it has to: gradients "
    "would be written over while they are reduced. torch.cat copies":
        lambda tensors, n: flatten_by_number(tensors, n) if tensors[1:] or len(flat(tensors)) % n
        else tensors[0].view(-1),
}.items()]  # fmt: skip
