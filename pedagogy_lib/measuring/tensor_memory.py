"""Tensors that own memory, and the bytes that they and their storages take."""

import functools

import torch

from ..basics.quiet_modes import is_wrapped_by_func, receives_operators
from ..basics.torch_private import base_of, unseen_by_modes

PLAIN_KINDS = (torch.Tensor, torch.nn.Parameter)
COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def tensors_in(value):
    """Yield every tensor in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def bytes_in_memory(storage) -> int:
    """Return the bytes that a storage takes; one that is backed by a file takes none."""
    return 0 if storage.filename else storage.nbytes()


def is_of_parameter(tensor) -> bool:
    """Return whether a tensor is a parameter or a view of one, even if .data set its memory."""
    base = base_of(tensor)
    return isinstance(tensor if base is None else base, torch.nn.Parameter)


@functools.cache
def wraps_others(kind) -> bool:
    """Return whether tensors of this class tell which others they consist of, as DTensor's do."""
    return hasattr(kind, "__tensor_flatten__")


@functools.cache
def is_fake(kind) -> bool:
    """Return whether tensors of this class have no memory; DTensor tries operations on such."""
    return any(base.__name__ == "FakeTensor" for base in kind.__mro__)


def has_memory(tensor) -> bool:
    """Return whether a strided tensor has a storage of its own, unlike one that wraps others."""
    if tensor.is_meta or torch.nn.parameter.is_lazy(tensor):  # nn.LazyLinear's before its batch
        return False
    if not receives_operators(type(tensor)):
        return True
    try:
        return tensor.untyped_storage().data_ptr() != 0
    except RuntimeError:
        return False


def parts_of(tensor) -> list[torch.Tensor]:
    """Return the tensors that hold the numbers and the indices of a sparse one.

    Raises  NotImplementedError for a layout whose memory torch does not show
    """
    with unseen_by_modes():
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in COMPRESSED:
            inner = tensor.detach()
            return [getattr(inner, name)() for name in (*COMPRESSED[tensor.layout], "values")]
    raise NotImplementedError(f"torch does not show the memory of the layout {tensor.layout}")


def plain_tensors(tensor) -> list[torch.Tensor]:
    """Return the tensors that own `tensor`'s memory: itself, or the inner ones of a DTensor."""
    kind = type(tensor)
    if kind in PLAIN_KINDS and tensor.layout is torch.strided and not is_wrapped_by_func(tensor):
        return [] if tensor.is_meta else [tensor]  # by far the most frequent case
    if wraps_others(kind):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return [plain for part in tensors_in(inner) for plain in plain_tensors(part)]
    if is_fake(kind) or is_wrapped_by_func(tensor):  # what torch.func wraps is seen by itself
        return []
    if tensor.layout is not torch.strided and not tensor.is_meta:
        return parts_of(tensor)
    return [tensor] if has_memory(tensor) else []


def bytes_of(tensor) -> int:
    """Return the bytes of a tensor's numbers and indices; views of one memory count each."""
    if tensor.layout is torch.strided:
        return tensor.nbytes
    return sum(part.nbytes for part in parts_of(tensor))
