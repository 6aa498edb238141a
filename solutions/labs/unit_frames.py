# Built from chapters/ch06_zero/labs/unit_frames.py by `make build`.
"""The frames of a `UnitFilm`: what a rank holds of each unit, and how that changes."""

from dataclasses import dataclass, field
from typing import NamedTuple


class UnitState(NamedTuple):
    """The part of one unit that one rank holds.

    chunks                of the parameters, one for each rank: "absent", "travelling", "held" or
                          "updated"
    gradient_bytes        of each parameter's own gradient, from this rank's samples; 0 for none
    shard_gradient_bytes  of the gradient of this rank's shard
    """

    chunks: tuple[str, ...]
    gradient_bytes: tuple[int, ...]
    shard_gradient_bytes: int


@dataclass
class UnitFrame:
    """The memory of one rank right after an event.

    event            what has happened, in words
    about            the numbers of the units to which it has happened
    units            a `UnitState` for each unit
    parameter_bytes  of all units: whole ones, and shards in separate memory
    gradient_bytes   of all units: the parameters' and the shards'
    """

    event: str
    about: list[int]
    units: list[UnitState]
    parameter_bytes: int
    gradient_bytes: int


@dataclass
class UnitFilm:
    """A film of one step on one rank.

    names       of the units, in the order of the model
    sizes       for each unit, the elements of its parameters
    elements    of each unit's flat tensor, with its padding
    unit_bytes  of each unit's flat tensor
    """

    rank: int
    n: int
    names: list[str]
    sizes: list[list[int]]
    elements: list[int]
    unit_bytes: list[int]
    frames: list[UnitFrame] = field(default_factory=list)


def changes_between(before: UnitState, now: UnitState):
    """Yield the changes of a unit: texts in which `Camera.describe_units` fills in its name."""
    was_absent, is_absent = "absent" in before.chunks, "absent" in now.chunks
    if was_absent and not is_absent:
        yield "{units} gathered"
    if now.shard_gradient_bytes > before.shard_gradient_bytes:
        yield "{gradients} reduced"
    elif before.shard_gradient_bytes > now.shard_gradient_bytes:
        yield "{gradients} freed"
    elif any(before.gradient_bytes) and not any(now.gradient_bytes):
        yield "{gradients} " + ("reduced" if now.shard_gradient_bytes else "freed")
    if is_absent and not was_absent:
        yield "{units} disposed of"
    if now.chunks.count("updated") > before.chunks.count("updated") > 0 and not was_absent:
        yield "{parameters} gathered"
