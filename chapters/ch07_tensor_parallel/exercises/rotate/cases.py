"""The tensors of the calls, and what runs next to the answer."""

import torch

DTYPES = torch.float64, torch.float32, torch.bfloat16


def draw_heads(seed, *shape) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=chance, dtype=torch.float64)


def places_of(*numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def rotate_half(answer, x, places):
    """Return the dtype of the result for x in bfloat16, and the result in float64."""
    y = answer(x.bfloat16(), places)
    return str(getattr(y, "dtype", None)), y.double() if isinstance(y, torch.Tensor) else None


def find_gradient(answer, x, places, slope):
    """Return the gradient of x, or None if there is none."""
    leaf = x.clone().requires_grad_()
    y = answer(leaf, places)
    if not isinstance(y, torch.Tensor) or not y.requires_grad:
        return None
    return torch.autograd.grad((y * slope).sum(), leaf)[0]


def is_new(answer, x, places) -> bool:
    """Return whether the result has other memory than x."""
    return answer(x, places).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
