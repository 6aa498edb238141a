"""Which choices fit into experts that take so many tokens only."""

import torch

from ..kit import Formula


def choices(seed, tokens, k, n, favourite=None) -> torch.Tensor:
    """Each token's k experts, all different."""
    chance = torch.Generator().manual_seed(seed)
    scores = torch.rand(tokens, n, generator=chance)
    if favourite is not None:
        scores[:, favourite] += 0.5
    return scores.topk(k, dim=-1).indices


def truth(experts, n, capacity):
    """Choice by choice, in plain Python."""
    room, tokens = [capacity] * n, experts.tolist()
    fits = [[False] * len(of_token) for of_token in tokens]
    for rank in range(experts.shape[1]):
        for token, of_token in enumerate(tokens):
            expert = of_token[rank]
            if room[expert]:
                room[expert] -= 1
                fits[token][rank] = True
    return fits


# ---- Mistakes: wrong functions ---


def in_order_of(order):
    """As the truth, in another order of the choices: takes (tokens, k), gives (token, rank)s."""

    def guess(experts, n, capacity):
        room, fits = [capacity] * n, torch.zeros_like(experts, dtype=torch.bool)
        for token, rank in order(*experts.shape):
            expert = experts[token, rank].item()
            if room[expert] > 0:
                room[expert] -= 1
                fits[token, rank] = True
        return fits

    return guess


def off(by):
    return lambda experts, n, capacity: truth(experts, n, max(0, capacity + by))


@in_order_of
def token_by_token(tokens, k):
    return [(token, rank) for token in range(tokens) for rank in range(k)]


@in_order_of
def from_the_last(tokens, k):
    return [(token, rank) for rank in range(k) for token in reversed(range(tokens))]


@in_order_of
def second_first(tokens, k):
    return [(token, rank) for rank in reversed(range(k)) for token in range(tokens)]


def each_rank_by_itself(experts, n, capacity):
    """As if first and second choices had room of their own."""
    columns = [truth(column[:, None], n, capacity) for column in experts.T]
    return torch.cat([torch.tensor(column) for column in columns], dim=1)


def all_or_none(experts, n, capacity):
    loads = experts.flatten().bincount(minlength=n)
    return (loads <= capacity)[experts]


def dropped(experts, n, capacity):
    return ~torch.tensor(truth(experts, n, capacity))


def whole_tokens(experts, n, capacity):
    """A token is kept if all its choices fit."""
    fits = torch.tensor(truth(experts, n, capacity))
    return fits.all(-1, keepdim=True).expand_as(fits)


def of_all_experts(experts, n, capacity):
    """As if `capacity` were the room of all experts together."""
    in_order = torch.arange(experts.numel()).view(experts.T.shape).T
    return in_order < capacity


def differs(call, wanted, got) -> str:
    for token, pair in enumerate(zip(wanted, got)):
        if pair[0] != pair[1]:
            return (
                f"token {token} chose {call[0][token].tolist()}: expected {pair[0]}, got {pair[1]}"
            )
    return ""


def example():
    return torch.tensor([[0, 1], [0, 1], [1, 0]])


EXERCISE = Formula(
    "9.18",
    "kept",
    lab="experts",
    cases={
        "the statement's example": [(example(), 2, 2)],
        "1 choice for each token, room for 2": [(choices(0, 8, 1, 3), 3, 2)],
        "1 choice, and all choose one expert": [(torch.zeros(5, 1, dtype=torch.long), 3, 2)],
        "2 choices for each token, room for 3": [(choices(1, 8, 2, 4), 4, 3)],
        "2 choices, one favourite": [(choices(2, 10, 2, 4, favourite=1), 4, 4)],
        "3 choices, room for 2": [(choices(3, 6, 3, 5), 5, 2)],
        "room for all": [(choices(4, 6, 2, 3), 3, 12)],
        "room for none": [(choices(5, 4, 2, 3), 3, 0)],
        "an expert that nobody chooses": [(torch.tensor([[0], [2], [0], [2]]), 4, 1)],
    },
    truth=truth,
    mistakes=[
        ("all first choices come before all second ones. Here a token's choices come one after "
         "another", token_by_token),
        ("earlier tokens come first", from_the_last),
        ("first choices come before second ones, and not after them", second_first),
        ("first and second choices share the room of an expert", each_rank_by_itself),
        ("an expert that gets too many keeps as many as fit, and not none", all_or_none),
        ("True is for a choice that fits; here it is for one that does not", dropped),
        ("each choice fits or not by itself: a token may have one of its two experts",
         whole_tokens),
        ("each expert has this capacity for itself", of_all_experts),
        ("`capacity` tokens fit: here it is one too few", off(-1)),
        ("`capacity` tokens fit: here it is one too many", off(1)),
    ],
    differs=differs,
    told=lambda calls, values: f"{sum(map(sum, values[0]))} of {calls[0][0].numel()} choices fit",
    asked="a tensor of bool, with the shape of experts",
    errors={
        "view size is not compatible": "a transposed tensor's numbers do not lie one after another "
        "in memory: reshape copies where view fails",
    },
    hints=(
        "Go through the choices in their order, and count for each expert how many it has.",
        "In which order are the numbers of experts.T.flatten()?",
        "Without a loop: F.one_hot gives a row for each choice, and cumsum(0) counts down these.",
    ),
)  # fmt: skip
