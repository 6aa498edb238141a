"""Gradients that are averaged while the backward is running.

The order of events is observed, not timed: see bucket_watch.py.
"""

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, World

from ..shared.mean_gradients import mean_of
from ..shared.state_snapshot_truth import leaves_alone
from .cases import ANY_ORDER, IN_TURN, ONE_ORDER, take_steps
from .truth import buckets_in_time, compute_known, mistakes, one_call_for_each_bucket, why_lost

EXERCISE = RankExercise(
    "DDP",
    lab="data_parallel",
    needs=("start_equal", "make_buckets"),
    cases=[
        RankCase(World(2), (ONE_ORDER, True), ", 3 steps"),
        RankCase(World(4), (ANY_ORDER, True), ", branches of the model"),
        RankCase(World(3), (ONE_ORDER, False), ", 3 steps with begin_all_reduce"),
        RankCase(GROUP, (IN_TURN, True), ", several backwards in a step"),
    ],
    work=take_steps,
    known=compute_known,
    facts=[
        buckets_in_time,
        one_call_for_each_bucket,
        Equals("grad", mean_of, mistakes, "`.grad`"),
        Equals("weights", lambda trial, place: trial[place].alone, called="after all steps, the "
               "weight", otherwise="one step is right, several are not: does something of a step "
               "stay for the next one, or does something change besides the gradients?"),
        leaves_alone,
    ],
    right="one all-reduce for each bucket, as soon as it can begin; the weights of one process",
    errors={
        "'function' object has no attribute 'wait'": "self.all_reduce returns the function that "
        "waits: call it",
        "zip() argument": "finish finds fewer buckets begun than there are: some may be left over, "
        "because a parameter had no part in the loss. Begin these first",
        "call finish() after each backward": "one step is right, and in the next one it looks as "
        "if finish() had not been called: finish() has to end with a new start",
        "list index out of range": "there is no bucket of this number: stop when as many have "
        "begun as there are",
    },
    explain=why_lost,
    on_hang="every rank has to begin the same buckets, in the same order",
    hints=(
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
)  # fmt: skip
