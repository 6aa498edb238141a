"""The right results, and the results of known mistakes."""

import torch
from torch import nn


def truth(rest, layers, width, hidden, n, k):
    """Return all parameters and one token's, counted in layers on a device without memory."""

    def mlp():
        sizes = [(width, hidden), (width, hidden), (hidden, width)]
        return nn.ModuleList(nn.Linear(*size, bias=False) for size in sizes)

    with torch.device("meta"):
        router, experts = nn.Linear(width, n, bias=False), [mlp() for _ in range(n)]
    used = [router, *experts[:k]]
    return [rest + layers * sum(map(count, of)) for of in ([router, *experts], used)]


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def formula(matrices=3, router=True, of_n="n", of_k="k", rest=True, used_rest=True, layers=True):
    """Return the formula with some of its parts changed."""

    def guess(rest_, layers_, width, hidden, n, k):
        expert, times = matrices * width * hidden, layers_ if layers else 1
        router_ = width * n if router else 0
        numbers = {"n": n, "k": k, "1": 1}
        return [
            (rest_ if rest else 0) + times * (router_ + numbers[of_n] * expert),
            (rest_ if used_rest else 0) + times * (router_ + numbers[of_k] * expert),
        ]

    return guess


def router_of_k(rest, layers, width, hidden, n, k):
    whole, used = truth(rest, layers, width, hidden, n, k)
    return [whole, used - layers * width * (n - k)]


def multiply_everything(rest, layers, width, hidden, n, k):
    """Count everything n times, as the name "8x7B" suggests."""
    one = rest + layers * 3 * width * hidden
    return [n * one + layers * width * n, k * one + layers * width * n]


MISTAKES = [
    ("a token meets k experts, not all n.", formula(of_k="n")),
    ("a token meets k experts, not one.", formula(of_k="1")),
    ("all n experts are stored, whatever a token meets.", formula(of_n="k")),
    ("an expert has three matrices here.", formula(matrices=2)),
    ("an expert has three matrices.", formula(matrices=1)),
    ("each layer has a router: a matrix width × n.", formula(router=False)),
    (
        "the router gives a score for each of the n experts, for every token: all of it is used.",
        router_of_k,
    ),
    ("the rest of the model is used by every token, too.", formula(used_rest=False)),
    (
        "the rest of the model is missing: it is there once, and every token meets it.",
        formula(rest=False, used_rest=False),
    ),
    ("this is one layer: all layers have experts.", formula(layers=False)),
    (
        "only the MLPs are there n times. Attention and embeddings are there once.",
        multiply_everything,
    ),
    (
        "first all parameters, then those that one token meets: these are the other way round.",
        lambda *args: truth(*args)[::-1],
    ),
]
