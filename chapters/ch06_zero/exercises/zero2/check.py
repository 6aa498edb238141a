"""ZeRO stage 2: gradients are reduced during the backward, unit by unit.

The order of reductions is observed, not timed. A mistake is refused on the rank that makes it,
before the ranks wait for each other.
"""

from functools import partial

from coursekit.kit import RankExercise

from ..shared.stages import BACKWARDS, work
from ..shared.stages_truth import CASES, ERRORS, FACTS, LOST, names_found, sends
from .cases import UnitWatch
from .truth import describe_result

EXERCISE = RankExercise(
    "Zero2",
    lab="zero",
    needs=("reduce_gradients", "zero1"),
    cases=CASES,
    work=partial(work, watching=UnitWatch),
    facts=[
        *FACTS,
        partial(
            sends,
            most={"backward": BACKWARDS, "step": 1, "update": 1},
            why={
                "backward": "one reduce-scatter for each unit is enough, in each backward",
                "step": "the step reduces once more, though nothing is left to reduce: after the "
                "backwards, the shards have their gradients. update() is enough",
                "update": "one all-gather for each unit is enough",
            },
        ),
    ],
    right=describe_result,
    errors={
        "list index out of range": "when all units are reduced, self.left is empty, and has no "
        "last one: while self.left and …",
        "pop from empty list": "when all units are reduced, self.left is empty: while self.left …",
        "'NoneType' object is not subscriptable": "self.left is None between backwards alone: only "
        "the end of end_backward sets it",
        **ERRORS,
    },
    on_hang=LOST,
    warm=True,
    found=names_found,
    hints=(
        "is_ready is told of one parameter. When is its unit complete? And may it be reduced "
        "at once, if on another rank another unit is ready first?",
        "self.left holds the units that are to be reduced; its last one comes next, on every "
        "rank. Reduce it if nothing is left in self.missing of it.",
        "When it is reduced, the one before it may be complete already: while self.left and "
        "not self.missing[self.left[-1]]: self.reduce(self.left.pop()).",
        "end_backward: while self.left: self.reduce(self.left.pop()). What is missing there "
        "will not come any more.",
    ),
)  # fmt: skip
