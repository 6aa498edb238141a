"""A program of ZeRO stage 1 with a bug: a flat tensor in parts, some of which no rank has.

The truth is one process that follows the mean of all ranks' gradients.
"""

from coursekit.kit import Equals, RankExercise, never

from .cases import case_of, try_parts
from .truth import NOT_N_PARTS, mistakes, need_all_moved, train

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "train_in_parts",
    cases=[
        case_of(8, 2, "SGD with momentum", 1),
        case_of(11, 3, "Adam", 1),
        case_of(10, 4, "SGD with momentum", 4),
        case_of(5, 4, "Adam", 4),
        case_of(2, 3, "SGD with momentum", 2),
    ],
    work=try_parts,
    facts=[
        need_all_moved,
        Equals("values", lambda trial, place: train(trial), mistakes, "what is returned"),
        never("changed", "the argument `values` has been changed",
              "whoever calls the function may need it as it was. The program took a copy, and "
              "F.pad takes one"),
        never("all", "an optimizer has {} numbers, which is all of them",
              "the numbers are right, but each rank updates all of them, with all of the "
              "optimizer's state. In stage 1 it has an optimizer for its own part alone"),
    ],
    right="the numbers of one process, on every rank",
    errors={
        "invalid tensor size": "all_gather wants parts that are all equally long, on all ranks. Is "
        "the last one shorter? What is missing there can be filled up",
        "invalid output tensor list": NOT_N_PARTS,
        "index out of range": NOT_N_PARTS,
        "numbers, and takes": "gradient_of() takes the numbers of the model, all of them, and "
        "without padding",
    },
    on_hang="every rank has to make the same calls, also one whose part is only padding",
    warm=True,
    hints=(
        "Take 11 numbers and 3 ranks, and write down which numbers are in which part.",
        "What is in no part is updated by nobody. If a part has length // n numbers, what is "
        "left over? Round up instead.",
        "Then n parts are longer than `values`. Put zeros at its end, F.pad(values, (0, …)), "
        "so that all parts are equally long. The program pads the gradient already, and cuts "
        "the padding off at the end.",
    ),
)  # fmt: skip
