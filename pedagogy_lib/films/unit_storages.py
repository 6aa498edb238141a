"""What a rank holds of a unit of parameters, read from the storages of its tensors.

A unit is one of labs/zero.py: it has `flat`, `parameters`, `shard`, `sizes`, `n` and `rank`.
"""

from ..basics.torch_private import identity_of_storage


def copies_of(unit):
    """A unit's shard; and its flat if that has memory from the beginning, as in stage 1."""
    return unit.shard.detach().clone(), unit.flat.clone() if is_gathered(unit) else None


def is_gathered(unit) -> bool:
    return unit.flat.untyped_storage().nbytes() > 0


def has_parameters(unit) -> bool:
    return [p.numel() for p in unit.parameters] == list(unit.sizes)


def bytes_of(tensors) -> int:
    """Of their storages; tensors may share one."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({identity_of_storage(storage): storage.nbytes() for storage in storages}.values())
