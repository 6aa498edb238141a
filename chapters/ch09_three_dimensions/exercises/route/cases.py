"""The code that runs next to the answer, and its inputs."""

import torch

SMALL_BIAS = torch.tensor([0.1, 0.0, -0.1], dtype=torch.float64)


def scores_of(seed, tokens, n) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, n, generator=chance, dtype=torch.float64)


def scores_and_slope(k) -> tuple[torch.Tensor, torch.Tensor]:
    return scores_of(5, 4, 3).requires_grad_(), scores_of(8, 4, k)


def gradient_through_weights(answer, k):
    """Return the gradient of the scores through an answer's weights; None if these have none."""
    scores, slope = scores_and_slope(k)
    weights, _ = answer(scores, k, SMALL_BIAS.clone())
    if not weights.requires_grad:
        return None
    return torch.autograd.grad((weights * slope).sum(), [scores])[0]
