"""Layers and collectives of numbers in 8 bits, where nothing is rounded, or all ranks alike."""

from functools import partial

import torch
import torch.distributed as dist
from collectives_twins import members
from function_twins import DTYPES, INPUTS, make_input, prepare
from helpers import load_solved_lab
from twins import EQUAL, Excluded, Twin

FORMATS, TRAINING, COLLECTIVES = map(
    load_solved_lab, ("narrow_formats", "narrow_training", "narrow_collectives")
)

# ---- A linear layer that rounds to its own dtype ----------------------------------------------


def make_linear(condition, is_ours, x):
    torch.manual_seed(0)
    inputs = make_input(condition).shape[-1]
    linear = torch.nn.Linear(inputs, inputs, bias=condition != "no bias").double()
    linear.to(make_input(condition).dtype).to(x.dtype)  # rounded first where theirs is in float64
    linear.weight.requires_grad_(condition != "frozen")
    layer = TRAINING.NarrowLinear(linear, FORMATS.Format(x.dtype, x.dtype)) if is_ours else linear
    return layer, list(linear.parameters())


# ---- A weight that is gathered in MXFP8 -------------------------------------------------------

SHARDS = {"float32": (3, 64), "bfloat16": (3, 64), "a shorter last block": (2, 33),
          "one number": (1, 1), "one dimension": (40,), "several dimensions": (2, 2, 40),
          "transposed": (40, 40), "zeros": (2, 40), "an infinity": (2, 40),
          "a group of some ranks": (2, 40), "uneven": (2, 40)}  # fmt: skip


def prepare_gather(condition):
    group, ranks = dist.new_group(members(condition)), members(condition)
    chance = torch.Generator().manual_seed(0)
    dtype = DTYPES.get(condition, torch.float32)
    shards = [torch.randn(SHARDS[condition], generator=chance).to(dtype) for _ in ranks]
    if condition == "zeros":
        shards[-1].zero_()
    if condition == "an infinity":
        shards[-1].view(-1)[0] = torch.inf
    if condition == "transposed":
        shards = [shard.t() for shard in shards]
    is_member = dist.get_rank() in ranks
    mxfp8 = FORMATS.MXFP8()

    def ours():
        return COLLECTIVES.gather_blocks(shards[dist.get_rank(group)], group) if is_member else None

    def theirs():
        return mxfp8.dequantize(*mxfp8.quantize(torch.cat(shards))) if is_member else None

    return ours, theirs


TWINS = [
    Twin("narrow_training.NarrowLinear",
         {name: wanted for name, wanted in INPUTS.items() if name != "no dimension"}
         | dict.fromkeys(("no bias", "frozen"), EQUAL)
         | {"not finite": Excluded("for finite numbers"), "autocast": Excluded("outside autocast")},
         partial(prepare, make_linear), sizes=(1,)),
    Twin("narrow_collectives.gather_blocks",
         dict.fromkeys(SHARDS, EQUAL) | {"uneven": Excluded("the same on all ranks"),
                                          "one dimension": Excluded("(rows, …, length)")},
         prepare_gather),
]  # fmt: skip
