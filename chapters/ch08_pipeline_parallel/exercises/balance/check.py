"""The division of layers among stages. Times are whole numbers or eighths, so sums are exact.

The truth is the lowest limit on a stage's seconds that can be kept, by whatever sizes.
"""

from coursekit.kit import RankExercise, complains
from coursekit.kit.single_rank import Alone, run_alone

from .cases import LAYERS, LISTS, STAGES, TOO_FEW, large_list, random_lists, share_out
from .truth import SECONDS, complaints, explain_timeout, report_cut

EXERCISE = RankExercise(
    "balance",
    lab="pipeline_parallel",
    cases=[
        *(Alone(what, share_out, (lists,)) for what, lists in LISTS.items()),
        Alone("random ones", share_out, (list(random_lists()),)),
        Alone("fewer layers than stages", share_out, (TOO_FEW,)),
        Alone(f"{LAYERS} layers on {STAGES} stages", share_out, ([large_list()],)),
    ],
    work=run_alone,
    facts=[complains(complaints)],
    right=report_cut,
    explain=explain_timeout,
    timeout=SECONDS,
    hints=(
        "Say that the first stage takes so many layers. What is left is the same question "
        "again, for fewer layers and one stage less.",
        "Write best(begin, stages): the slowest stage's seconds, and the sizes, for the layers "
        "from `begin` on. With one stage there is nothing to choose.",
        "Else try each end of the first stage that leaves a layer for every other one: "
        "max(its seconds, those of best(end, stages - 1)), and take the minimum.",
        "@functools.cache on best: it is asked for the same rest again and again. Before all: "
        "fewer layers than stages are a ValueError.",
    ),
)  # fmt: skip
