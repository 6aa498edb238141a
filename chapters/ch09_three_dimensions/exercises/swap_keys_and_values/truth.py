"""The right results, and the results of known mistakes."""

import torch

from .cases import x_of


def join_chunks(trial, place, along, reverse=False):
    shape, split, _, dtype = trial.case.args
    parts = [x_of(k, shape, dtype).chunk(trial.n, split)[place] for k in range(trial.n)]
    return torch.cat(parts[::-1] if reverse else parts, along)


def truth(trial, place):
    return join_chunks(trial, place, trial.case.args[2])


def mistakes(trial, place):
    shape, split, join, dtype = trial.case.args
    x, n = x_of(place, shape, dtype), trial.n
    return {
        "what comes is joined along the dimension that was split, and not along `join`":
            join_chunks(trial, place, split),
        "what comes is in the order of the ranks: that of the group's first rank first":
            join_chunks(trial, place, join, reverse=True),
        "this is what the rank had: nothing has travelled": x,
        "these are the rank's own parts, joined in another way: part r goes to rank r":
            torch.cat(x.chunk(n, split), join),
        "this is one part of all, on every rank: each rank gets another one":
            torch.cat([x_of(k, shape).chunk(n, split)[0] for k in range(n)], join),
        "x is split along `join` here, and joined along `split`":
            torch.cat([x_of(k, shape).chunk(n, join)[place] for k in range(n)], split)
            if shape[join] % n == 0 else x,
        "these are all parts of all ranks: part r is for rank r alone":
            torch.cat([x_of(k, shape) for k in range(n)], join),
    }  # fmt: skip


def most(trial, place):
    shape = trial.case.args[0]
    return 8 * torch.Size(shape).numel() * (trial.n - 1) / trial.n + 400 * trial.n
