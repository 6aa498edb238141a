"""The number of micro-batches into which a batch must be split so that a step fits in memory.

The answer runs on a rank, because a search for a number that does not exist may never end.
"""

from coursekit.kit import Equals
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import TASKS, split
from .truth import describe_result, fewest, mistakes, refuses_what_does_not_fit, why_endless

EXERCISE = WarmExercise(
    "micro_batches_for",
    cases=[
        Alone("batch {}, limit {:,}, fixed {:,}, each {:,}".format(*task), split, task)
        for task in TASKS
    ],
    work=run_alone,
    found=lambda case: ("count",) if fewest(*case.args) else ("outcome",),
    facts=[
        refuses_what_does_not_fit,
        Equals("count", lambda trial, place: fewest(*trial.case.args), mistakes,
               "the number of micro-batches"),
    ],
    right=describe_result,
    explain=why_endless,
    hints=(
        "With `count` micro-batches, how many samples are in memory at once, and what does a "
        "step need then?",
        "Try 1, 2, 3, … up to `batch`, each with one sample then. The first that divides "
        "`batch`, and fits, is the answer.",
        "batch % count == 0 and fixed + each * (batch // count) <= limit. After the loop: "
        "nothing has fitted.",
    ),
)  # fmt: skip
