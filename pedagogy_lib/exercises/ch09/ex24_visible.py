"""Which keys of another rank's piece a query may see."""

import torch

from ..kit import Formula

FINDS_A_BUG = True


def truth(rank, source, length):
    """Place by place in the whole text."""
    return [
        [source * length + key <= rank * length + query for key in range(length)]
        for query in range(length)
    ]


def local(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool).tril()


def turned(rank, source, length):
    return torch.tensor(truth(source, rank, length)).reshape(length, length)


def strict(rank, source, length):
    places = torch.arange(length)
    return source * length + places < (rank * length + places).unsqueeze(-1)


def own_all(rank, source, length):
    return torch.full((length, length), source <= rank)


def transposed(rank, source, length):
    return torch.tensor(truth(rank, source, length)).T


def negated(rank, source, length):
    return ~torch.tensor(truth(rank, source, length))


def everything(rank, source, length):
    return torch.ones(length, length, dtype=torch.bool)


def own_alone(rank, source, length):
    return local(rank, source, length) & (rank == source)


def earlier_alone(rank, source, length):
    return torch.full((length, length), source < rank)


def later_too(rank, source, length):
    """The triangle for a rank's own piece, and everything of all others."""
    return local(rank, source, length) | (rank != source)


def local_of_earlier(rank, source, length):
    return local(rank, source, length) & (source <= rank)


def differs(call, wanted, got) -> str:
    rank, source, _ = call
    for query, pair in enumerate(zip(wanted, got)):
        if pair[0] != pair[1]:
            what = f"rank {rank}, keys of rank {source}, query {query}"
            return f"{what}: expected {pair[0]}, got {pair[1]}"
    return ""


EXERCISE = Formula(
    "9.24",
    "visible",
    cases={
        "its own piece, 3 places": [(0, 0, 3)],
        "the piece before": [(1, 0, 3)],
        "the piece behind": [(0, 1, 3)],
        "its own piece, later in the text": [(2, 2, 4)],
        "a piece long before": [(3, 0, 2)],
        "a piece long behind": [(0, 3, 2)],
        "the piece before, 6 places": [(1, 0, 6), (2, 1, 6), (1, 1, 6)],
        "pieces of one place": [(0, 0, 1), (1, 0, 1), (0, 1, 1)],
    },
    truth=truth,
    mistakes=[
        ("every piece is masked as if it were the rank's own. Compare places in the whole text: "
         "place i of rank r's piece is place r × length + i of the text", local),
        ("a query sees what is earlier, not what is later: rank and source have changed places",
         turned),
        ("a query sees its own place, too", strict),
        ("within its own piece a query sees earlier keys alone", own_all),
        ("rows are queries and columns are keys: it is the other way round", transposed),
        ("True is for keys that the query sees", negated),
        ("this hides nothing: a query would see what comes later", everything),
        ("a query sees all of the earlier pieces, too", own_alone),
        ("a query sees the earlier part of its own piece, too", earlier_alone),
        ("pieces behind this one are later in the text: a query sees nothing of them", later_too),
        ("all of an earlier piece is earlier: there is no triangle in it", local_of_earlier),
    ],
    differs=differs,
    told=lambda calls, values: f"{sum(map(sum, values[0]))} of {calls[0][2] ** 2} pairs",
    asked="a tensor of bool, (length, length)",
    hints=(
        "Rank 1's first query is at place `length` of the text. Which keys of rank 0 may it see?",
        "Make the places of the queries, rank * length + torch.arange(length), and those of the "
        "keys. A key is visible if its place is not larger than the query's.",
    ),
)  # fmt: skip
