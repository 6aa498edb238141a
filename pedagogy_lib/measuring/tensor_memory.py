"""Tensors that own memory, and the bytes that their storages take."""

import functools

import torch

from ..basics.torch_private import base_of
from .bytes_of_calls import tensors_in


def bytes_in_memory(storage) -> int:
    """Return the bytes that a storage takes; one that is backed by a file takes none."""
    return 0 if storage.filename else storage.nbytes()


def is_of_parameter(tensor) -> bool:
    """Return whether a tensor is a parameter or a view of one, even if .data set its memory."""
    base = base_of(tensor)
    return isinstance(tensor if base is None else base, torch.nn.Parameter)


@functools.cache
def wraps_others(kind) -> bool:
    """Return whether tensors of this class consist of others, as those of DTensor do."""
    return hasattr(kind, "__tensor_flatten__")


@functools.cache
def is_fake(kind) -> bool:
    """Return whether tensors of this class have no memory; DTensor tries operations on such."""
    return any(base.__name__ == "FakeTensor" for base in kind.__mro__)


def owns_memory(tensor) -> bool:
    is_lazy = torch.nn.parameter.is_lazy(tensor)  # nn.LazyLinear's before its first batch
    return tensor.layout is torch.strided and not tensor.is_meta and not is_lazy


def plain_tensors(tensor) -> list[torch.Tensor]:
    """Return the tensors that own `tensor`'s memory: itself, or the inner ones of a DTensor."""
    kind = type(tensor)
    if wraps_others(kind):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return [plain for part in tensors_in(inner) for plain in plain_tensors(part)]
    return [tensor] if owns_memory(tensor) and not is_fake(kind) else []
