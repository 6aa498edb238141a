"""The right results, and the results of known mistakes."""

import math

import torch


def truth(out, lse, more, more_lse):
    """Return the merged out and lse, computed query by query in plain Python."""
    rows = zip(*(x.reshape(-1).tolist() for x in (lse, more_lse)))
    merged, sums = torch.empty_like(out).view(-1, out.shape[-1]), []
    pairs = zip(out.reshape(-1, out.shape[-1]), more.reshape(-1, out.shape[-1]))
    for number, ((a, b), (x, y)) in enumerate(zip(rows, pairs)):
        highest = max(a, b)
        p, q = math.exp(a - highest), math.exp(b - highest)
        merged[number] = (p * x + q * y) / (p + q)
        sums.append(highest + math.log(p + q))
    return merged.view(out.shape), torch.tensor(sums, dtype=out.dtype).view(lse.shape)


def wrong_out(combine):
    def guess(out, lse, more, more_lse):
        return combine(out, lse, more, more_lse), truth(out, lse, more, more_lse)[1]

    return guess


def wrong_lse(combine):
    return lambda out, lse, more, more_lse: (
        truth(out, lse, more, more_lse)[0], combine(lse, more_lse)
    )  # fmt: skip


def weigh_by_lse(out, lse, more, more_lse):
    a, b = lse.unsqueeze(-1), more_lse.unsqueeze(-1)
    return (a * out + b * more) / (a + b)


def not_divided(out, lse, more, more_lse):
    return lse.exp().unsqueeze(-1) * out + more_lse.exp().unsqueeze(-1) * more


def swap_weights(out, lse, more, more_lse):
    return truth(more, lse, out, more_lse)[0]


MISTAKES = [
    ("both sets count the same here. One has larger scores, or more keys, and counts more: its "
     "weight is exp(lse), divided by the sum of both",
     wrong_out(lambda o, a, m, b: (o + m) / 2)),
    ("each part is a mean already. Their sum is twice as large as it should be: weigh them",
     wrong_out(lambda o, a, m, b: o + m)),
    ("lse is a logarithm: the weight is exp(lse), divided by the sum of both",
     wrong_out(weigh_by_lse)),
    ("the weights do not add up to 1: divide by the sum of both", wrong_out(not_divided)),
    ("out has the weight of more, and more that of out", wrong_out(swap_weights)),
    ("this is the first set alone", wrong_out(lambda o, a, m, b: o)),
    ("this is the second set alone", wrong_out(lambda o, a, m, b: m)),
    ("sums are added up, and not their logarithms: log(exp(a) + exp(b))",
     wrong_lse(lambda a, b: a + b)),
    ("the larger one alone is too small: log(exp(a) + exp(b))", wrong_lse(torch.maximum)),
    ("this is the first set's lse", wrong_lse(lambda a, b: a)),
    ("this is the sum itself; asked is its logarithm",
     wrong_lse(lambda a, b: a.exp() + b.exp())),
]  # fmt: skip
