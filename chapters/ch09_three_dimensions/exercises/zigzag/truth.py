"""The right results, and the results of known mistakes."""

import torch


def truth(context, n):
    """Return each rank's places, assigned place by place."""
    length, found = context // (2 * n), [[] for _ in range(n)]
    for place in range(context):
        piece = place // length
        found[min(piece, 2 * n - 1 - piece)].append(place)
    return found


def pieces(context, n, parts):
    return list(torch.arange(context).chunk(parts))


def split_contiguously(context, n):
    return pieces(context, n, n)


def deal_round_robin(context, n):
    return [torch.arange(rank, context, n) for rank in range(n)]


def neighbours(context, n):
    of = pieces(context, n, 2 * n)
    return [torch.cat([of[rank], of[rank + n]]) for rank in range(n)]


def late_first(context, n):
    of = pieces(context, n, 2 * n)
    return [torch.cat([of[2 * n - 1 - rank], of[rank]]) for rank in range(n)]


def last_rank_first(context, n):
    return truth(context, n)[::-1]


def lists_of_pieces(context, n):
    of = pieces(context, n, 2 * n)
    return [[of[rank].tolist(), of[2 * n - 1 - rank].tolist()] for rank in range(n)]


def reverse_second_piece(context, n):
    of = pieces(context, n, 2 * n)
    return [torch.cat([of[rank], of[2 * n - 1 - rank].flip(0)]) for rank in range(n)]


def one_off(context, n):
    of = pieces(context, n, 2 * n)
    return [torch.cat([of[rank], of[(2 * n - rank) % (2 * n)]]) for rank in range(n)]


MISTAKES = [
    ("these are pieces in a row: the last rank has most to compute. Each rank gets two pieces, "
     "an early one and a late one", split_contiguously),
    ("here places are dealt out in turns. Asked are two pieces for each rank", deal_round_robin),
    ("piece r goes together with piece 2n - 1 - r: the earliest with the latest one",
     neighbours),
    ("the places are ascending: the early piece comes first", late_first),
    ("rank 0 has the first piece", last_rank_first),
    ("each rank has one tensor of places: torch.cat joins its two pieces", lists_of_pieces),
    ("within a piece places stay in order", reverse_second_piece),
    ("pieces have the numbers 0 to 2n - 1: piece r goes together with 2n - 1 - r", one_off),
]  # fmt: skip
