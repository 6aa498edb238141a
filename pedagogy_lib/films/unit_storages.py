"""What a rank holds of a unit of parameters, read from the storages of its tensors.

A unit is one of labs/zero.py: it has `flat`, `parameters`, `shard`, `sizes`, `n` and `rank`.
"""

import contextlib

import torch


def copies_of(unit):
    """A unit's shard; and its flat if that has memory from the beginning, as in stage 1."""
    return unit.shard.detach().clone(), unit.flat.clone() if is_gathered(unit) else None


def is_gathered(unit) -> bool:
    return unit.flat.untyped_storage().nbytes() > 0


def has_parameters(unit) -> bool:
    return [p.numel() for p in unit.parameters] == list(unit.sizes)


def is_in(tensor, storage) -> bool:
    return tensor.untyped_storage()._cdata == storage._cdata


def bytes_of(tensors) -> int:
    """Of their storages; tensors may share one."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


@contextlib.contextmanager
def resizes_seen_by(resize):
    """Have `resize(resize_, storage, size)` called in place of each resize of a storage."""
    resize_ = torch.UntypedStorage.resize_
    torch.UntypedStorage.resize_ = lambda storage, size: resize(resize_, storage, size)
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = resize_
