"""Shards of several lengths, gathered by one flat call."""

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, never
from pedagogy_lib.basics.errors import HangError

from .cases import AS_PADDING, LARGE, gather
from .truth import (
    EMPTY_MISSING,
    WHY_MORE,
    mistakes,
    mistakes_of_shard,
    most_bytes,
    one_call,
    own,
    whole,
)

EXERCISE = RankExercise(
    "gather_uneven",
    lab="collectives_called",
    cases=[
        RankCase(World(2), ((2, 5), torch.float64), ", 2 and 5 numbers"),
        RankCase(World(3), ((2, 4, 3), torch.float64), ", 2, 4 and 3 numbers"),
        RankCase(World(3), ((0, 2, 1), torch.int64), ", 0, 2 and 1 whole numbers"),
        RankCase(World(2), ((2, 2), torch.float32), ", 2 and 2 numbers of float32"),
        RankCase(World(1), ((3,), torch.float64), ", 3 numbers"),
        RankCase(World(2), ((0, 0), torch.float64), ", no numbers"),
        RankCase(GROUP, ((1, 3, 2), torch.float64), ", 1, 3 and 2 numbers"),
        RankCase(World(3), (LARGE, torch.float64), ", large shards"),
        RankCase(World(3), ((2, 4, 3), torch.float64), AS_PADDING),
    ],
    work=gather,
    facts=[
        never("is_changed", "the list `lengths` has changed", "it belongs to the caller"),
        Equals("whole", whole, mistakes, "what it returns"),
        never("is_fooled", "a number of a shard is missing if it is the one that pads shards",
              "padding is told by `lengths`, and not by its value, which a shard may have, too"),
        Equals("shard", own, mistakes_of_shard, "the shard"),
        never("is_shared", "what it returns has the memory of the shard",
              "this is the caller's tensor: return a new one"),
        Sends(most_bytes, "padded shards are", WHY_MORE),
        one_call,
    ],
    right="all shards, one after another, without padding",
    errors={
        "cannot be multiplied": "lengths is a list: lengths[k] belongs to rank k of the group",
        "output tensor size must be equal to world_size times input tensor size": "the flat "
        "result of an all-gather is as long as all padded shards together: the number of ranks "
        "times the longest length",
        "Expected all tensors to have the same": "shards have several lengths: pad each one to "
        "the longest",
        "invalid tensor size": "shards have several lengths: pad each one to the longest",
        "start (": "narrow and slices go beyond the end: in what was gathered, each part is as "
        "long as the longest shard",
    },
    explain=lambda case, error: EMPTY_MISSING
    if isinstance(error, HangError) and 0 in case.args[0] else "",
    on_hang="each rank has to send as many numbers as the others: pad a shard to the longest "
    "length, not to another one",
    hints=(
        "All ranks know `lengths`. How long does every shard have to be, so that one flat "
        "all-gather can take them?",
        "Make new zeros of that length, with the dtype of the shard, and copy the shard to their "
        "beginning. The result of the all-gather is the number of ranks times as long.",
        "View the result as one row per rank. Of row k, only the first lengths[k] numbers count: "
        "join these with torch.cat.",
    ),
)  # fmt: skip
