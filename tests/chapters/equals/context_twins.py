"""Linear attention over pieces of a text, next to that of the whole text in one process."""

import torch
import torch.distributed as dist
from helpers import load_solved_lab
from layer_conditions import FLOATS, HALVES, lines_of_ranks, mode
from twins import EQUAL, Twin

LINEAR = load_solved_lab("linear_attention")
LENGTHS = {"uneven": (2, 5, 1, 4), "an empty piece": (0, 3, 3, 3)}
DTYPES = HALVES | FLOATS
CONDITIONS = dict.fromkeys(
    ("float64", "float32", "bfloat16", "float16", "not contiguous", "frozen keys", "no_grad",
     "a group of some ranks", "several groups", *LENGTHS), EQUAL
)  # fmt: skip


def attend(condition):
    """Prepare the comparison of outputs, and of the gradients of queries, keys and values."""
    lines = lines_of_ranks(condition)
    groups = [dist.new_group(line) for line in lines]
    group = next(group for group in groups if dist.get_rank(group) >= 0)
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    lengths = LENGTHS.get(condition, (3, 3, 3, 3))[:n]
    chance = torch.Generator().manual_seed(n)
    dtype = DTYPES.get(condition, torch.float64)
    whole = []
    for size in (4, 4, 6, 6):  # queries, keys, values, and the gradient of the output
        shape = (2, 2, size, sum(lengths)) if condition == "not contiguous" else (
            2, 2, sum(lengths), size)  # fmt: skip
        x = torch.randn(shape, generator=chance, dtype=torch.float64).to(dtype)
        whole.append(x.transpose(-1, -2) if condition == "not contiguous" else x)

    def learn(function, numbers, part=lambda x: x):
        *leaves, slope = [x.detach() for x in numbers]
        for number, x in enumerate(leaves):
            x.requires_grad_(number != 1 or condition != "frozen keys")
        with mode(condition):
            y = function(*leaves)
        if y.requires_grad:
            y.backward(slope)
        found = [y.detach(), *(x.grad for x in leaves if x.grad is not None)]
        return [part(x) for x in found]

    def mine(x):
        return x.split(lengths, dim=-2)[rank]

    def ours():
        return learn(lambda *x: LINEAR.attend_to_states(*x, group), map(mine, whole))

    def theirs(dtype=dtype):
        return learn(LINEAR.attend_linearly, [x.to(dtype) for x in whole], mine)

    if condition in DTYPES:
        return ours, theirs, lambda: theirs(torch.float64)
    return ours, theirs


TWINS = [Twin("linear_attention.attend_to_states", CONDITIONS, attend)]
