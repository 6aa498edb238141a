"""An exchange of uneven numbers of rows between ranks, and of their gradients in the backward."""

from coursekit.kit import GROUP, RankCase, RankExercise, World, complains, never
from coursekit.kit.forward_backward import ALL_KNOWN, NOT_CONSTANT, right, which_gradients

from .cases import TWICE, exchange
from .truth import HANG, OTHER_LENGTHS, backward, calls_are_few, describe_success, forward

EXERCISE = RankExercise(
    "Exchange",
    lab="expert_parallel",
    cases=[
        RankCase(World(n), (sends, of_row, what == TWICE), f", {what}")
        for n, sends, of_row, what in [
            (2, [[2, 2], [2, 2]], (3,), "all the same"),
            (2, [[1, 2], [3, 1]], (3,), "rows of uneven number"),
            (3, [[0, 2, 1], [1, 1, 3], [2, 0, 1]], (3,), "rows of uneven number, some none"),
            (3, [[2, 1, 1], [0, 0, 0], [1, 0, 2]], (5,), "one sends nothing"),
            (3, [[1, 0, 2], [2, 0, 1], [1, 0, 1]], (3,), "one gets nothing"),
            (2, [[1, 2], [3, 1]], (2, 3), "rows of 2 × 3 numbers"),
            (2, [[1, 2], [3, 1]], (), "rows of one number"),
            (3, [[1, 0, 2], [0, 0, 0], [1, 0, 1]], (3,), "one sends nothing and gets nothing"),
            (2, [[1, 2], [3, 1]], (3,), TWICE),
            (1, [[3]], (3,), "its own rows"),
        ]
    ]
    + [
        RankCase(GROUP, ([[1, 2, 0], [0, 1, 2], [3, 0, 1]], (3,), False), ", rows of uneven number")
    ],
    work=exchange,
    facts=[
        never("changed", "{0[0]} has changed", "the caller still needs x as it was"),
        never(
            "slope_changed",
            "the gradient that came has changed",
            "others may still need it: change a tensor of your own",
        ),
        NOT_CONSTANT,
        right("y", forward, called="y"),
        right(
            "gradients",
            backward,
            tells=lambda trial, place: which_gradients(backward, trial, place),
        ),
        ALL_KNOWN,
        complains(calls_are_few),
    ],
    right=describe_success,
    errors={
        "returned an incorrect number of gradients": "backward returns one value for each argument "
        "of forward: a gradient for x, None for the others",
        "returned an invalid gradient": OTHER_LENGTHS,
        "Split sizes": OTHER_LENGTHS,
        "split sizes": OTHER_LENGTHS,
        "invalid tensor size": "rows of uneven number go by exchanged(…), of the lab: "
        "dist.all_to_all_single with both lists",
        "must be contiguous": "what goes into an all-to-all lies in one piece: x.contiguous()",
        "has no attribute 'send'": "keep in ctx, in the forward, what the backward needs",
    },
    on_hang=HANG,
    hints=(
        "exchanged(x, send, receive, group) of the lab is the forward. What does the backward need "
        "to know?",
        "Keep send, receive and group in ctx. In the backward each row's gradient goes back to "
        "where the row came from: who sends how many then?",
        "backward returns four values: the gradient of x, and three times None.",
    ),
)
