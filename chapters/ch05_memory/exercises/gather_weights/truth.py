"""The right results, and the results of known mistakes."""

import math

import torch

from .cases import make_shard

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def shards_of(trial):
    return [make_shard(place, trial.n, *trial.case.args) for place in range(trial.n)]


def cast(x, scale, dtype=E4M3):
    """Return what x becomes in E4M3 with this scale."""
    return (x.double() / scale).float().to(dtype).double()


def right(trial, place):
    whole = torch.cat(shards_of(trial))
    scale = whole.abs().max().item() / 448 or 1.0
    return (cast(whole, scale) * scale).float()


def mistakes(trial, place):
    shards = shards_of(trial)
    n, whole = trial.n, torch.cat(shards)
    if not all(shard.any() for shard in shards):
        return {ONE_OF_ZEROS: cast(whole, 1.0).float()}
    scales = [shard.abs().max().item() / 448 for shard in shards]
    largest, mine = max(scales), scales[place]
    own = [cast(shard, scale) for shard, scale in zip(shards, scales)]
    signed = whole.max().item() / 448
    power = 2.0 ** math.ceil(math.log2(largest))
    floor = max(largest, 1e-3 / 448)
    rounded = [cast(shard, largest) * largest for shard in shards]
    found = {
        OWN: torch.cat(own) * mine,
        EACH: torch.cat([part * scale for part, scale in zip(own, scales)]),
        GLOBAL_AFTERWARDS: torch.cat(own) * largest,
        GLOBAL_BEFORE: cast(whole, largest) * mine,
        SUMMED: cast(whole, sum(scales)) * sum(scales),
        AVERAGED: cast(whole, sum(scales) / n) * sum(scales) / n,
        SMALLEST: cast(whole, min(scales)) * min(scales),
        SIGNED: cast(whole, signed) * signed,
        UNSCALED: cast(whole, largest),
        EXACT: whole,
        ONLY_OWN: rounded[place],
        OF_RANK_0: cast(whole, scales[0]) * scales[0],
        POWER: cast(whole, power) * power,
        FLOOR: cast(whole, floor) * floor,
        ADDED: cast(whole, largest + 1e-8) * (largest + 1e-8),
        OWN_EXACT: torch.cat([*rounded[:place], shards[place], *rounded[place + 1 :]]),
        IN_E5M2: cast(whole, largest, E5M2) * largest,
    }
    return {why: values.float() for why, values in found.items()}


def why_whole(trial) -> str:
    """Return the diagnosis of a tensor that no mistake gives."""
    for place, got in enumerate(trial.collect_values("whole")):
        wanted = right(trial, place)
        if not isinstance(got, torch.Tensor):
            return ""
        if got.shape != wanted.shape:
            return OTHER_SHAPE
        if got.dtype != wanted.dtype:
            return OTHER_DTYPE
    return OTHERWISE


def why_bytes(trial, ratio) -> str:
    return FOUR if 3 < ratio < 5 else TWO if 1.8 < ratio < 2.2 else ""


OWN = (
    "each rank has divided its shard by a scale of its own, and multiplies all shards by this one, "
    "so ranks disagree about the weight. One scale has to be agreed on"
)
EACH = (
    "each shard has a scale of its own here. Ranks agree, but the result is not that of one "
    "process, which has one scale for the whole weight"
)
GLOBAL_AFTERWARDS = (
    "the shards are divided by the scales of their ranks, and multiplied by the common one: agree "
    "on the scale before you divide"
)
GLOBAL_BEFORE = (
    "the shards are divided by the common scale, and multiplied by this rank's own: both need the "
    "same scale"
)
SUMMED = (
    "the scale comes from the sum of all ranks' largest magnitudes: the largest of them is the "
    "largest magnitude of the whole weight"
)
AVERAGED = (
    "the scale comes from the mean of all ranks' largest magnitudes, so larger numbers do not fit "
    "into E4M3: the largest of them is the largest magnitude of the whole weight"
)
SMALLEST = (
    "the scale comes from the smallest of all ranks' largest magnitudes, so the numbers of other "
    "ranks do not fit into E4M3"
)
SIGNED = (
    "the scale comes from the largest number, but the number of the largest magnitude is negative: "
    "take magnitudes first"
)
UNSCALED = "these are the elements: multiply them by the scale"
EXACT = "nothing is rounded to E4M3 here: the weight has to travel with a byte per number"
ONLY_OWN = "this is this rank's shard alone; asked is the whole weight, the shards in rank order"
OF_RANK_0 = "this is the scale of rank 0: the largest magnitude may lie on any rank"
POWER = (
    "the scale is rounded to a power of two, as in MXFP8: here it is the largest magnitude divided "
    "by 448, unrounded"
)
FLOOR = (
    "the scale has a lower limit that is too large for such small weights: their numbers lose "
    "digits or become 0"
)
ADDED = (
    "a number is added to the scale: asked is the largest magnitude divided by 448, and nothing "
    "more"
)
OWN_EXACT = (
    "this rank's own shard is returned unrounded, so ranks disagree about the weight: all numbers "
    "are rounded to E4M3"
)
IN_E5M2 = "these numbers are rounded to E5M2, which has fewer digits than E4M3"
ONE_OF_ZEROS = (
    "a shard of zeros has put in the scale 1, which is larger than the other ranks' scales: take "
    "the maximum of the magnitudes first, and look for 0 afterwards"
)
OTHER_SHAPE = "the shards lie one after another along dimension 0, as torch.cat joins them"
OTHER_DTYPE = "the whole weight is asked in float32, the dtype of the shards"
OTHERWISE = (
    "each number of the whole weight has to be divided by one scale, rounded to E4M3, and "
    "multiplied by the same scale"
)
NOT_A_NUMBER = (
    "a shard of zeros has the largest magnitude 0, and 0 / 0 is nan. The scale of a weight that is "
    "all zeros may be any other number, such as 1"
)
FOUR = "four bytes per number travel: cast to E4M3 before the all-gather, not after it"
TWO = "twice the bytes travel: does the weight go around twice, or in 16 bits?"
