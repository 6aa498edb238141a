"""What the cases and the truth share."""

import torch


def weight_of_a_sample(samples, n=1) -> float:
    """How much one sample counts in a mean over so many, if n ranks average their gradients."""
    losses = torch.ones(samples, dtype=torch.float64, requires_grad=True)
    (losses.mean() / n).backward()
    return losses.grad[0].item()
