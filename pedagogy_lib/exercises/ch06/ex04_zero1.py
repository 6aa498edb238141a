"""Exercise 6.4: Zero1."""

from ...course.checking import Exercise
from .stages import examine_zero1

EXERCISE = Exercise(
    "6.4", "Zero1", examine_zero1,
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
    needs=("6.3", "2.7", "3.4",),
)  # fmt: skip
