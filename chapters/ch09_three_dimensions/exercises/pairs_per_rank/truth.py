"""The right results, and the results of known mistakes."""

from itertools import pairwise

import torch


def truth(cu_seqlens, places):
    """Return the pairs of each rank, tried one by one."""
    return [sum(len(keys_seen(cu_seqlens, query)) for query in mine.tolist()) for mine in places]


def keys_seen(cu_seqlens, query) -> list[int]:
    """Return the places of the keys that a query sees."""
    return [
        key for key in range(query + 1) if not any(key < start <= query for start in cu_seqlens)
    ]


def documents_of(cu_seqlens):
    """Return (first place, length) of each document."""
    return [(start, end - start) for start, end in pairwise(cu_seqlens)]


def as_one_document(cu_seqlens, places):
    return [int((mine + 1).sum()) for mine in places]


def not_itself(cu_seqlens, places):
    return [pairs - len(mine) for pairs, mine in zip(truth(cu_seqlens, places), places)]


def whole_documents(cu_seqlens, places):
    return [
        sum(int(((mine >= start) & (mine < start + size)).sum()) * size
            for start, size in documents_of(cu_seqlens))
        for mine in places
    ]  # fmt: skip


def keys_of_rank(cu_seqlens, places):
    return [
        sum(len({*keys_seen(cu_seqlens, query)} & {*mine.tolist()}) for query in mine.tolist())
        for mine in places
    ]


def starts_behind(cu_seqlens, places):
    """Return the pairs if a document's first token belonged to the document before."""
    starts = torch.tensor(cu_seqlens)
    return [int((mine - starts[torch.bucketize(mine, starts) - 1] + 1).sum()) for mine in places]


def first_token_before(cu_seqlens, places):
    """Return the same, but the first token of the row belongs to the first document."""
    starts = torch.tensor(cu_seqlens)
    return [
        int((mine - starts[(torch.bucketize(mine, starts) - 1).clamp(min=0)] + 1).sum())
        for mine in places
    ]


def places_in_piece(cu_seqlens, places):
    return [len(mine) * (len(mine) + 1) // 2 for mine in places]


def equal_shares(cu_seqlens, places):
    total = sum(size * (size + 1) // 2 for _, size in documents_of(cu_seqlens))
    return [total // len(places)] * len(places)


def pairs_of_documents(cu_seqlens, places):
    return [size * (size + 1) // 2 for _, size in documents_of(cu_seqlens)]


def as_lengths(cu_seqlens, places):
    """Return the pairs if the cumulative lengths were lengths."""
    starts = torch.tensor([0, *cu_seqlens]).cumsum(0)
    return [
        int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
        for mine in places
    ]


MISTAKES = [
    ("this takes the row for one document: a query sees keys of its own document alone",
     as_one_document),
    ("a query sees its own key, too: add one for each query", not_itself),
    ("a query sees the keys of its document that are not later, and not all of them",
     whole_documents),
    ("the keys may be on any rank: a query sees all earlier keys of its document", keys_of_rank),
    ("the first token of a document is counted with the document before: it belongs to the last "
     "start that is not later than itself", starts_behind),
    ("the first token of a document is counted with the document before: it belongs to the last "
     "start that is not later than itself", first_token_before),
    ("places are those in the row: the first query of a piece may see many keys on other ranks",
     places_in_piece),
    ("this shares all pairs out equally: count those of each rank's queries", equal_shares),
    ("these are the pairs of each document; asked are those of each rank", pairs_of_documents),
    ("cu_seqlens says where documents begin, and not how long they are", as_lengths),
]  # fmt: skip
