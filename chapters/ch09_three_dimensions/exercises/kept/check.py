"""The choices that fit into experts of limited capacity."""

import torch

from coursekit.kit import Formula

from .truth import MISTAKES, truth


def choices(seed, tokens, k, n, favourite=None) -> torch.Tensor:
    """Return each token's k experts, all different."""
    chance = torch.Generator().manual_seed(seed)
    scores = torch.rand(tokens, n, generator=chance)
    if favourite is not None:
        scores[:, favourite] += 0.5
    return scores.topk(k, dim=-1).indices


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
    mistakes=MISTAKES,
    differs=differs,
    right=lambda calls, values: f"{sum(map(sum, values[0]))} of {calls[0][0].numel()} choices fit",
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
