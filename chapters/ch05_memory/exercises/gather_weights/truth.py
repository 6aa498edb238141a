"""The right results, and the results of known mistakes."""

import torch

from .cases import make_shard

E4M3 = torch.float8_e4m3fn


def shards_of(trial):
    return [make_shard(place, trial.n, *trial.case.args) for place in range(trial.n)]


def cast(x, scale):
    """Return what x becomes in E4M3 with this scale."""
    return (x.double() / scale).float().to(E4M3).double()


def right(trial, place):
    whole = torch.cat(shards_of(trial))
    scale = whole.abs().max().item() / 448 or 1.0
    return (cast(whole, scale) * scale).float()


def mistakes(trial, place):
    shards = shards_of(trial)
    if not all(shard.any() for shard in shards):
        return {}
    n, whole = trial.n, torch.cat(shards)
    scales = [shard.abs().max().item() / 448 for shard in shards]
    largest, mine = max(scales), scales[place]
    own = [cast(shard, scale) for shard, scale in zip(shards, scales)]
    signed = whole.max().item() / 448
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
        ONLY_OWN: cast(shards[place], largest) * largest,
    }
    return {why: values.float() for why, values in found.items()}


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
NOT_A_NUMBER = (
    "a shard of zeros has the largest magnitude 0, and 0 / 0 is nan. The scale of a weight that is "
    "all zeros may be any other number, such as 1"
)
FOUR = "four bytes per number travel: cast to E4M3 before the all-gather, not after it"
TWO = "twice the bytes travel: does the weight go around twice, or in 16 bits?"
