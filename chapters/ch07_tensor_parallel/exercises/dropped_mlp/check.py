"""Dropout inside and outside the parallel region.

Masks are read from outside: a dropped feature of `hidden` has no gradient, and one of y is 0.
"""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from .cases import P, drop, gradients, y
from .truth import (
    COMMON_MOVED,
    Y_DIFFERS,
    common_stream,
    drops,
    drops_differently,
    report_masks,
    why_again,
)

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "dropped_mlp",
    needs=("all_reduce",),
    cases=[RankCase(World(n), (), f", p = {P:g}") for n in (2, 3)],
    work=drop,
    facts=[
        drops("kept", "hidden",
              "one process drops features here, too. What must not be the same on two ranks has to "
              "be drawn differently; without drawing there is no dropout"),
        drops("kept_y", "y",
              "there are two dropouts: the second one works on y, behind the all-reduce"),
        drops_differently,
        never("repeats", "it drops the same features of hidden in a second call", why_again),
        Equals("kept_y", lambda trial, place: trial[0].kept_y, called="what is kept of y",
               otherwise=Y_DIFFERS),
        Equals("y", y, lambda trial, place: {
                   "each rank has what comes from its own features: nobody has added that up":
                       y(trial, place, lambda every: every[place])},
               otherwise="what is kept is divided by 1 - p, once, in both dropouts: F.dropout does "
               "that"),
        Equals("gradients", gradients, called="y is right, the gradient",
               otherwise="the backward of a dropout passes where the forward has passed. Is y what "
               "this rank has computed, or has it been overwritten? And is it added up by "
               "AllReduce?"),
        never("y_repeats", "a second call drops the same places of y",
              "the second dropout draws the same numbers in each call: its stream has to go on"),
        Equals("kept_y", lambda trial, place: common_stream()[0], otherwise=COMMON_MOVED,
               called="what a process that draws for y alone keeps of y"),
        Equals("next", lambda trial, place: common_stream()[1], otherwise=COMMON_MOVED,
               called="what is drawn after the last call"),
    ],
    right=report_masks,
    errors={
        "'tensor_parallel' is not defined": "run the cell with tensor_parallel = "
        'lab("tensor_parallel") first',
        "a leaf Variable": "an argument is changed in place: whoever calls the function still "
        "needs it",
        "cannot be multiplied": "a part is multiplied by what it does not fit. Who has which "
        "columns?",
    },
    on_hang="every rank has to make the same calls in the same order, in the backward as well",
    hints=(
        "All ranks have the same seed, and they have to: for the second dropout. What follows "
        "from that for the first?",
        "Inside of the parallel region, each rank needs random numbers of its own, that go on "
        "from call to call; outside, all need the same. `randomness` is such a stream of "
        "its own.",
        "`with randomness:` around the first dropout, and around nothing else.",
    ),
)  # fmt: skip
