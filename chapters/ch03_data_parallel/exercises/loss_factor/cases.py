"""The parts that the check and the truth share."""

import torch


def weight_of_a_sample(samples, n=1) -> float:
    """Return the weight of one sample in a mean over `samples` if n ranks average gradients."""
    losses = torch.ones(samples, dtype=torch.float64, requires_grad=True)
    (losses.mean() / n).backward()
    return losses.grad[0].item()
