"""An MLP whose first matrix is cut along the wrong dimension: exercise split_mlp.

The truth is one process. Work is counted as multiplications in matrix products, and bytes are
counted from the calls.
"""

from coursekit.kit import Holds, RankCase, RankExercise, World, never
from coursekit.kit.forward_backward import right, ring_bytes
from coursekit.kit.message_costs import SendLimit

from .cases import try_split
from .truth import why_sent, y_bytes, y_of

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "split_mlp",
    cases=[
        RankCase(World(n), sizes, f", {sizes[1]} inputs, {sizes[2]} hidden features")
        for n, sizes in [(1, (3, 8, 16)), (2, (3, 8, 16)), (2, (5, 4, 12)), (4, (5, 4, 12))]
    ],
    work=try_split,
    facts=[
        never("changed", "{0[0]} has changed",
              "whoever calls the function still needs it as it was"),
        right("y", y_of),
        Holds("share", lambda share: share <= 1, "it multiplies {:.3g} times its part",
              "the numbers are right, but every rank does the work of all: nothing has become less "
              "by having more ranks. Each is to use its own part of a, and of b"),
        SendLimit(lambda trial: ring_bytes(y_bytes(trial), trial.n), "one all-reduce of y sends",
                why_sent, "calls"),
    ],
    right="y on every rank; each does its part of the work; x, a and b are as before",
    errors={
        "cannot be multiplied": "what stands left has other columns than the matrix right of it "
        "has rows: this rank needs those rows of b that belong to its columns of GELU(x a)",
        "must be contiguous": "a part of the columns has gaps in memory, and cannot be sent like "
        "that: .contiguous() closes them. But what has to be sent at all?",
        "must match the size": "parts of different shapes cannot be added",
    },
    on_hang="every rank has to make the same calls in the same order",
    hints=(
        "Take one hidden feature. Which rows or columns of `a` does it come from? Does a rank "
        "have all of them?",
        "GELU is not linear: it needs complete sums. Only a cut of `a` along its columns gives "
        "complete hidden features, some to each rank, with nothing to send.",
        "And then `b`: hidden feature k is multiplied with row k of b alone. So each rank "
        "needs the rows of its own features, and gets a summand of all of y.",
        "hidden = F.gelu(x @ this rank's columns of a), y = hidden @ this rank's rows of b, "
        "and at the end dist.all_reduce(y), which works in place.",
    ),
)  # fmt: skip
