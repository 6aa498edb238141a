"""ZeRO stage 3: parameters are whole only while their unit computes."""

from coursekit.kit import Equals, RankCase, RankExercise, World, complains

from ..shared.zero3_training import Plan
from ..shared.zero3_training_truth import weights_of
from .cases import train
from .truth import cost_faults, describe_result, why_it_failed

EXERCISE = RankExercise(
    "Zero3",
    lab="zero",
    needs=("start_equal", "gather", "dispose", "reduce_gradients", "zero2"),
    warm=True,
    found=lambda case: ("weights",) if isinstance(case, Plan) else ("sent", "at_rest", "at_most"),
    cases=[
        Plan(World(2), what=", training"),
        Plan(World(3), what=", checkpointing", steps=2, around=(1, 2)),
        Plan(World(2), what=", checkpointing, the last layer too", steps=2, around=(0, 1, 2),
             stops_early=False, ends_in_layer=True),
        RankCase(World(2), what=", cost"),
        Plan(World(2), what=", prefetch", prefetch="in line"),
        Plan(World(1), what=", training", steps=2),
        Plan(World(3), what=", prefetch in a thread", around=(0,),
             prefetch="in a thread"),
        Plan(World(3, (1, 2)), what=", training", steps=1),
    ],
    work=train,
    facts=[
        Equals("weights", weights_of, called="the weights after"),
        complains(cost_faults),
    ],
    right=describe_result,
    errors={
        "KeyError": "a unit may have had no part in a loss: it is reduced at the end of the "
        "backward, and its own has never begun. discard() does not mind, remove() does",
    },
    on_hang="all ranks have to gather and to reduce the same units, in the same order",
    explain=why_it_failed,
    hints=(
        "need(unit) and drop(unit) are there already. Four methods say when: before_forward, "
        "after_forward, before_backward, and reduce, when the unit's gradients are all there.",
        "before_forward and before_backward need the unit. after_forward drops it. reduce "
        "reduces its gradients, as stage 2 does, and drops it.",
        "A forward that runs again within a backward ends with after_forward, too. "
        "before_backward puts the unit into self.held, reduce takes it out, and after_forward "
        "drops only what is not in there.",
    ),
)  # fmt: skip
