"""What the cases and the truth share."""

import torch

DTYPE, BYTES = torch.float16, 2  # of an element: neither 4 nor 8, which are soon written in


def of_size(size):
    """So many elements: one without an axis, an even number with two axes."""
    shape = () if size == 1 else (2, size // 2) if size % 2 == 0 else (size,)
    return torch.zeros(shape, dtype=DTYPE)
