"""Stage 3 with communication that overlaps computation."""

from coursekit.kit import Equals, RankExercise, World

from .cases import OTHER, Plan, train
from .truth import describe_result, weights_of

EXERCISE = RankExercise(
    "Prefetching",
    lab="prefetch",
    needs=("start_equal", "gather", "dispose", "reduce_gradients", "zero2", "zero3"),
    warm=True,
    cases=[
        Plan(World(2), what=", one unit ahead"),
        Plan(World(3), what=", two units ahead", depth=2),
        Plan(World(2), what=", recomputed layers", around=(1, 2)),
        Plan(World(2), what=", in a thread", thread=True),
        Plan(World(1), what=", one unit ahead", steps=2),
        Plan(World(3, (1, 2)), what=", one unit ahead, in a thread", steps=3, thread=True),
    ],
    work=train,
    facts=[Equals("weights", weights_of, called="the weights after", otherwise=OTHER)],
    right=describe_result,
    errors={
        "'NoneType' object is not callable": "what stands in self.coming is no function: "
        "self.begin(job) returns one that waits. With brackets behind it, it has waited already, "
        "and what is left is None",
        "KeyError": "self.coming has every unit that is there, or on its way: note it there when "
        "its gather is put into the line",
        "missing 1 required positional argument": "a job is called without arguments: "
        "partial(gather, unit) has its argument with it",
    },
    on_hang="all ranks have to put the same jobs into the line, in the same order",
    hints=(
        "need: for this unit, and then for each of self.ahead(): is it in self.coming? If not, put "
        "its gather into the line, and note in self.coming what waits for it.",
        "At the end of need, one call: it waits for this unit. The others are left to the line.",
        "reduce: self.begin(partial(reduce_gradients, taken)) returns what waits for the "
        "reduction. Keep it in self.reductions. end_backward calls each of them, and empties the "
        "list.",
    ),
)  # fmt: skip
