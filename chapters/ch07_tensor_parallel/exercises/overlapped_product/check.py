"""A product that sums the gradient of x over the ranks while it computes that of A.

The answer gets a `begin` that hides the sum until it is waited for, and all products are noted, so
that the order of events is observed, not timed.
"""

from coursekit.kit import GROUP, Equals, Holds, RankExercise, World, never
from coursekit.kit.results import VIEW

from ..shared.pieces_truth import SAME_CALLS
from .cases import ONCE, make_case, multiply
from .truth import NOT_FLAT, compute_own_gradients, gradient_of, positions, report_trial

EXERCISE = RankExercise(
    "OverlappedProduct",
    lab="sequence_parallel",
    cases=[
        make_case((4,)),
        make_case((2, 4)),
        make_case((2, 1, 4), has_bias=False),
        make_case((2,), frozen="A", world=World(2)),
        make_case((2,), frozen="b"),
        make_case((2,), frozen="A and b"),
        make_case((2, 2), frozen="x"),
        make_case((4,), world=GROUP),
    ],
    work=multiply,
    found=lambda case: [*"xAb", *(["events", "given"] if case.args[2] != "x" else [])],
    facts=[
        Holds("events", lambda events: "begin" in events, "begin is never called",
              lambda trial, place: "something is sent, but not by ctx.begin, which forward has "
              "kept: whoever calls decides how to add up" if "call" in trial[place].events else
              "the gradient of x comes from all ranks' parts of A: it is a sum over the ranks. "
              "ctx.begin(…, ctx.group) begins to add it up"),
        Holds("events", lambda events: "wait" in events, "nobody has waited for the sum",
              "begin returns a function. Until that has been called and has returned, nobody may "
              "count on what is in the gradient of x: wait before backward returns"),
        Holds("events", lambda events: "call" not in events,
              "besides begin there are calls of torch.distributed", ONCE),
        Holds("events", lambda events: events.index("begin") < min(positions(events, "A"),
                                                                   default=len(events)),
              "the gradient of A is computed before the sum begins",
              "nothing overlaps: the sum can begin as soon as the gradient of x is there. That is "
              "computed first, then the sum begins, then comes the gradient of A"),
        Holds("events", lambda events: events.index("wait") > max(positions(events, "A"),
                                                                  default=-1),
              "the sum is waited for before the gradient of A is computed",
              "the numbers may be right, but nothing overlaps: the sum begins, and is waited for "
              "at once. Keep what begin returns, compute the gradient of A, and then call it"),
        never("nans", lambda names: f"the gradient of {names[0]} is nan",
              "nan marks what is on its way: until it is waited for, nobody may compute with the "
              "tensor that begin got"),
        Equals("given", lambda trial, place: compute_own_gradients(trial, place)["x"],
               called="what begin got",
               otherwise="what begin got is not the gradient of x through this rank's part of A"),
        *map(gradient_of, "xAb"),
    ],
    right=report_trial,
    errors={
        "incorrect number of gradients": "backward returns one gradient for each argument of "
        "forward: those of x, weight and bias, and None for group and begin",
        "invalid gradient at index 0": "what is returned first is the gradient of x, of x's shape: "
        "weight is stored as (outputs, inputs)",
        "invalid gradient at index 1": "what is returned second is the gradient of the weight, and "
        "so of its shape, (outputs, inputs)",
        "invalid gradient at index 2": "what is returned third is the gradient of the bias, one "
        f"number for each output. {NOT_FLAT}",
        "view size is not compatible": VIEW,
        "None at position 3": "b may be None, and then so is its gradient: ctx.has_bias tells",
        "None at position": "group and begin have no gradients: their places have None",
        "object has no attribute 'wait'": "begin returns the function that waits: call it",
        "name 'begin' is not defined": "forward has kept it: ctx.begin",
        "name 'group' is not defined": "forward has kept it: ctx.group",
        "(4x3 and 5x3)": "weight is stored as (outputs, inputs), the gradient of x is (…, inputs)",
        "(4x3 and 4x5)": "A's gradient adds up over all rows, and is (outputs, inputs)",
        **dict.fromkeys(
            ("mat1 and mat2 shapes", "size mismatch", "must match the size", "2 dimensions",
             "2D tensors", "must be a matrix", "Expected size for first two dimensions"), NOT_FLAT),
    },
    on_hang=SAME_CALLS,
    hints=(
        "There are four things to do: compute the gradient of x, begin its sum, compute those "
        "of A and b, wait. In which order does the sum travel while something is computed?",
        "y = x Aᵀ for A as it is stored, (outputs, inputs): so the gradient of x is gradient @ "
        "weight. gradients_of_layer gives those of weight and bias.",
        "ctx.begin(of_x, ctx.group) returns a function: keep it, and call it at last. The sum "
        "is in of_x then. Return five: of_x, of_weight, of_bias, None, None.",
    ),
)  # fmt: skip
