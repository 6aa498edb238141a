"""The code that runs next to the answer, and its inputs."""

import torch


def scores_of(seed, tokens, n) -> torch.Tensor:
    chance = torch.Generator().manual_seed(100 + seed)
    return torch.randn(tokens, n, generator=chance, dtype=torch.float64)


def route_equal_nodes(answer) -> list:
    """Return the experts that tokens get if three of four nodes count equally."""
    nodes = torch.tensor([[4, 0], [3, 1], [2, 2], [1, 0]], dtype=torch.float64)
    orders = torch.tensor([[0, 1, 2, 3], [2, 3, 1, 0]])
    _, experts = answer(nodes[orders].flatten(1), 4, 4, 2)
    return experts.tolist()


def scores_and_slope() -> tuple[torch.Tensor, torch.Tensor]:
    return scores_of(10, 5, 8).requires_grad_(), scores_of(11, 5, 2)


def gradient_through_weights(answer):
    """Return the gradient of the scores through an answer's weights; None if these have none."""
    scores, slope = scores_and_slope()
    weights, _ = answer(scores, 2, 4, 2)
    if not weights.requires_grad:
        return None
    return torch.autograd.grad((weights * slope).sum(), [scores])[0]
