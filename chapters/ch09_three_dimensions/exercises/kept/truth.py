"""The right results, and the results of known mistakes."""

import torch


def truth(experts, n, capacity):
    """Return which choices fit, decided choice by choice in plain Python."""
    room, tokens = [capacity] * n, experts.tolist()
    fits = [[False] * len(of_token) for of_token in tokens]
    for rank in range(experts.shape[1]):
        for token, of_token in enumerate(tokens):
            expert = of_token[rank]
            if room[expert]:
                room[expert] -= 1
                fits[token][rank] = True
    return fits


def fill_in_order(order):
    """Return the truth with another order of the choices: order(tokens, k) gives (token, rank)s."""

    def guess(experts, n, capacity):
        room, fits = [capacity] * n, torch.zeros_like(experts, dtype=torch.bool)
        for token, rank in order(*experts.shape):
            expert = experts[token, rank].item()
            if room[expert] > 0:
                room[expert] -= 1
                fits[token, rank] = True
        return fits

    return guess


def shift_capacity(by):
    return lambda experts, n, capacity: truth(experts, n, max(0, capacity + by))


@fill_in_order
def token_by_token(tokens, k):
    return [(token, rank) for token in range(tokens) for rank in range(k)]


@fill_in_order
def take_last_tokens_first(tokens, k):
    return [(token, rank) for rank in range(k) for token in reversed(range(tokens))]


@fill_in_order
def second_first(tokens, k):
    return [(token, rank) for rank in reversed(range(k)) for token in range(tokens)]


def each_rank_by_itself(experts, n, capacity):
    """Return which choices would fit if first and second choices had separate room."""
    columns = [truth(column[:, None], n, capacity) for column in experts.T]
    return torch.cat([torch.tensor(column) for column in columns], dim=1)


def all_or_none(experts, n, capacity):
    loads = experts.flatten().bincount(minlength=n)
    return (loads <= capacity)[experts]


def mark_dropped(experts, n, capacity):
    return ~torch.tensor(truth(experts, n, capacity))


def whole_tokens(experts, n, capacity):
    """Keep a token only if all its choices fit."""
    fits = torch.tensor(truth(experts, n, capacity))
    return fits.all(-1, keepdim=True).expand_as(fits)


def share_one_capacity(experts, n, capacity):
    """Return which choices would fit if `capacity` were the room of all experts together."""
    in_order = torch.arange(experts.numel()).view(experts.T.shape).T
    return in_order < capacity


MISTAKES = [
    ("all first choices come before all second ones. Here a token's choices come one after "
     "another", token_by_token),
    ("earlier tokens come first", take_last_tokens_first),
    ("first choices come before second ones, and not after them", second_first),
    ("first and second choices share the room of an expert", each_rank_by_itself),
    ("an expert that gets too many keeps as many as fit, and not none", all_or_none),
    ("True is for a choice that fits; here it is for one that does not", mark_dropped),
    ("each choice fits or not by itself: a token may have one of its two experts",
     whole_tokens),
    ("each expert has this capacity for itself", share_one_capacity),
    ("`capacity` tokens fit: here it is one too few", shift_capacity(-1)),
    ("`capacity` tokens fit: here it is one too many", shift_capacity(1)),
]  # fmt: skip
