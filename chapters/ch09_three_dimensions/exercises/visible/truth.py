"""The right results, and the results of known mistakes."""

import torch


def truth(rank, source, length):
    """Return which keys are visible, compared place by place in the whole text."""
    return [
        [source * length + key <= rank * length + query for key in range(length)]
        for query in range(length)
    ]


def local(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool).tril()


def swap_ranks(rank, source, length):
    return torch.tensor(truth(source, rank, length)).reshape(length, length)


def strict(rank, source, length):
    places = torch.arange(length)
    return source * length + places < (rank * length + places).unsqueeze(-1)


def own_all(rank, source, length):
    return torch.full((length, length), source <= rank)


def transpose_mask(rank, source, length):
    return torch.tensor(truth(rank, source, length)).T


def invert_mask(rank, source, length):
    return ~torch.tensor(truth(rank, source, length))


def show_all(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool)


def own_alone(rank, source, length):
    return local(rank, source, length) & (rank == source)


def earlier_alone(rank, source, length):
    return torch.full((length, length), source < rank)


def later_too(rank, source, length):
    """Return the triangle for a rank's own piece, and every key for all others."""
    return local(rank, source, length) | (rank != source)


def local_of_earlier(rank, source, length):
    return local(rank, source, length) & (source <= rank)


MISTAKES = [
    ("every piece is masked as if it were the rank's own. Compare places in the whole text: "
     "place i of rank r's piece is place r × length + i of the text", local),
    ("a query sees what is earlier, not what is later: rank and source have changed places",
     swap_ranks),
    ("a query sees its own place, too", strict),
    ("within its own piece a query sees earlier keys alone", own_all),
    ("rows are queries and columns are keys: it is the other way round", transpose_mask),
    ("True is for keys that the query sees", invert_mask),
    ("this hides nothing: a query would see what comes later", show_all),
    ("a query sees all of the earlier pieces, too", own_alone),
    ("a query sees the earlier part of its own piece, too", earlier_alone),
    ("pieces behind this one are later in the text: a query sees nothing of them", later_too),
    ("all of an earlier piece is earlier: there is no triangle in it", local_of_earlier),
]  # fmt: skip
