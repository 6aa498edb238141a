"""The code that runs next to the answer, and its inputs."""

import torch


def scores_of(seed, tokens, n) -> torch.Tensor:
    chance = torch.Generator().manual_seed(100 + seed)
    return torch.randn(tokens, n, generator=chance, dtype=torch.float64)


def scores_and_slope() -> tuple[torch.Tensor, torch.Tensor]:
    return scores_of(10, 5, 8).requires_grad_(), scores_of(11, 5, 2)


def gradient_through_weights(answer):
    """Return the gradient of the scores through an answer's weights; None if these have none."""
    scores, slope = scores_and_slope()
    weights, _ = answer(scores, 2, 4, 2)
    if not weights.requires_grad:
        return None
    return torch.autograd.grad((weights * slope).sum(), [scores])[0]
