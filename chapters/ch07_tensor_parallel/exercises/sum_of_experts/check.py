"""An all-reduce that overwrites a tensor that autograd still needs: exercise SumOfExperts."""

from coursekit.kit import RankCase, RankExercise, World, never
from coursekit.kit.forward_backward import HANG, NOT_CONSTANT, right

from .cases import BEFORE, try_expert
from .truth import CHANGED, gates, gradients_of, y_of

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "SumOfExperts",
    cases=[
        RankCase(World(n), (name,), f", {name} before it")
        for n, names in [(2, BEFORE), (3, ["relu"]), (1, ["relu"])]
        for name in names
    ],
    work=try_expert,
    facts=[
        right("y", y_of, called="the sum"),
        NOT_CONSTANT,
        right("gradients", gradients_of, tells=gates),
        never("overwritten", "the argument y has been changed",
              "the gradients are right here, but y is not as it was, and somebody may still need "
              "it"),
        never("slope_changed", "backward has changed its argument",
              "the gradient that comes in is changed in place: others may have it, too"),
    ],
    right="the sum, and the gradient; the arguments of both stay as they were",
    errors={
        "modified by an inplace operation": "autograd now hears of the change (from mark_dirty, or "
        "from an operation that ends in _), and refuses: relu keeps its result for the backward, "
        "and that is overwritten. To tell of a damage does not undo it",
        "a leaf Variable": CHANGED,
        "view and is being modified": CHANGED,
        "incorrect number of gradients": "backward returns one gradient for each argument of "
        "forward",
        "invalid gradient": "the gradient of y is as large as y",
        "Backward' object has no attribute": "ctx has what forward has put there, and nothing else",
    },
    on_hang=HANG,
    hints=(
        "The forward is right, and so is the derivative of a sum. The gradient goes wrong only "
        "after that: in what stands before the sum.",
        "relu does not keep x for its backward, it keeps its result: the very tensor that "
        "SumOfExperts is given. dist.all_reduce writes the sum into that memory, and autograd "
        "does not notice.",
        "Add up in memory of its own. y.detach() and view_as() have the same memory; clone() "
        "has not.",
    ),
)  # fmt: skip
