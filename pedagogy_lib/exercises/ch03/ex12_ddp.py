"""Exercise 3.12: DDP."""

from ...course.checking import Exercise
from .overlapping import examine_ddp

EXERCISE = Exercise(
    "3.12", "DDP", examine_ddp,
    (
        "Three parts: is_ready strikes a parameter off its bucket's set in self.missing, and "
        "begins what can begin. begin_next begins one bucket. finish begins the others, waits, "
        "divides, and puts the parts into `.grad`.",
        "How many have begun is len(self.begun), so that is the number of the next bucket, "
        "too. It can begin when self.missing[len(self.begun)] is empty; then perhaps the one "
        "after it, which was ready before. There is nothing to do if synchronizing is False.",
        "begin_next: flat = flatten(bucket), then self.all_reduce(flat, self.group). Keep the "
        "pair of flat and what that returns in self.begun, and do not call it yet.",
        "finish: while buckets are left, begin_next(). For each bucket with its pair: wait(), "
        "flat /= dist.get_world_size(self.group), unflatten(flat, bucket). At the end "
        "self.start_over(), or the next backward begins nothing.",
    ),
    lab="data_parallel",
)  # fmt: skip
