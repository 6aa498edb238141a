"""Exercise 6.4: Zero1."""

from ...course.checking import Exercise
from ..ch02.ex07_all_gather_ring import EXERCISE as ALL_GATHER
from ..ch03.ex04_start_equal import examine_start_equal
from ..kit.parts import after
from .ex03_reduce_gradients import examine_reduce_gradients
from .stages import examine_zero1

EXERCISE = Exercise(
    "6.4", "Zero1", after(
        examine_zero1,
        ("6.3", "reduce_gradients", examine_reduce_gradients),
        ("2.7", "all_gather_ring", ALL_GATHER.examine),
        ("3.4", "start_equal", examine_start_equal),
    ),
    (
        "A step: reduce all units, have the optimizer step on the shards, give everybody all "
        "chunks. The first is for step(), the others are for update().",
        "A unit's shard is a view into unit.flat: when the optimizer has changed it, this "
        "rank's chunk is new, and so are the parameters that lie in it. The other chunks are "
        "on the other ranks.",
        "update(): self.optimizer.step(), self.optimizer.zero_grad(), then for each unit "
        "all_gather_ring(unit.chunks, unit.group).",
    ),
    lab="zero",
)  # fmt: skip
