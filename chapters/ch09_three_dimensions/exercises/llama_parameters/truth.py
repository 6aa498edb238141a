"""The right results, and the results of known mistakes."""

import torch
from torch import nn


def truth(layers, width, heads, kv_heads, hidden, vocabulary):
    def matrix(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=False)

    with torch.device("meta"):
        of_keys = kv_heads * width // heads
        attention = [matrix(width, out) for out in (width, width, of_keys, of_keys)]
        mlp = [matrix(width, hidden), matrix(width, hidden), matrix(hidden, width)]
        block = nn.ModuleList([*attention, *mlp, nn.RMSNorm(width), nn.RMSNorm(width)])
        ends = nn.ModuleList(
            [nn.Embedding(vocabulary, width), matrix(width, vocabulary), nn.RMSNorm(width)]
        )
    return layers * count(block) + count(ends)


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def plus(difference):
    """Return the truth plus a wrong difference, a function of the same arguments."""
    return lambda *args: truth(*args) + difference(*args)


MISTAKES = [
    (
        "keys and values are smaller: width × (kv_heads × width / heads) each, as several "
        "heads of queries share one.",
        plus(lambda n, w, h, k, f, v: n * 2 * (w * w - w * k * w // h)),
    ),
    (
        "this MLP has three matrices, not two: one more than in chapter 07.",
        plus(lambda n, w, h, k, f, v: -n * w * f),
    ),
    (
        "embedding and output each have a matrix: here they are not tied.",
        plus(lambda n, w, h, k, f, v: -v * w),
    ),
    (
        "the norms are missing: two in each block, and one at the end.",
        plus(lambda n, w, h, k, f, v: -n * 2 * w - w),
    ),
    (
        "one more norm follows the last block.",
        plus(lambda n, w, h, k, f, v: -w),
    ),
    (
        "each block has two norms.",
        plus(lambda n, w, h, k, f, v: -n * w),
    ),
    (
        "a norm is counted in each layer that stands behind the last one only.",
        plus(lambda n, w, h, k, f, v: (n - 1) * w),
    ),
    (
        "the output of attention has a matrix, too: width × width.",
        plus(lambda n, w, h, k, f, v: -n * w * w),
    ),
    (
        "keys and values each have a matrix: here only one of them counts.",
        plus(lambda n, w, h, k, f, v: -n * w * k * w // h),
    ),
    (
        "embedding and output are there once, not in each layer.",
        plus(lambda n, w, h, k, f, v: (n - 1) * 2 * v * w),
    ),
    (
        "these are the blocks alone: embedding and output are missing.",
        plus(lambda n, w, h, k, f, v: -2 * v * w),
    ),
]
