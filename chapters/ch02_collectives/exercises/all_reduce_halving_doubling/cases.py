"""The code that runs next to the answer."""

import torch


def refuses(answer) -> bool:
    """Return whether the answer raises ValueError on a rank."""
    try:
        answer(torch.ones(6, dtype=torch.float64))
    except ValueError:
        return True
    return False
