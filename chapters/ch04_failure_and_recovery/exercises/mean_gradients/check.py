"""The gradients of the whole batch on every rank, however many ranks share the batch."""

from coursekit.kit import GROUP, Equals, RankExercise, Sends, World, complains, never

from . import gradients_reasons as why
from .cases import HUGE, MIXED, add_up, make_case
from .truth import check_computed_once, expect_bytes, explain, mistakes, otherwise, truth, why_much

EXERCISE = RankExercise(
    "mean_gradients",
    lab="restart",
    cases=[
        make_case(World(2), 4),
        make_case(World(3), 4),
        make_case(World(4), 7),
        make_case(World(1), 3),
        make_case(World(3), 2),
        make_case(World(3), 5, MIXED, ", parameters of several dtypes"),
        make_case(GROUP, 4),
        make_case(World(3), 4, HUGE, ", 2 MB of gradients"),
    ],
    work=add_up,
    facts=[
        complains(check_computed_once),
        Equals("gradients", truth, mistakes, "the gradients", otherwise),
        never("changed", "{}", why.CHANGED),
        Sends(expect_bytes, "an all-reduce sends", why_much),
    ],
    right="the mean over all micro-batches, each computed once",
    needs=("microbatches_of",),
    explain=explain,
    hints=(
        "In one process it would be: add up the gradients of m micro-batches, and divide by m. Who "
        "adds up what now?",
        "Start with torch.zeros_like(parameter) for each parameter, add the gradients of this "
        "rank's micro-batches, and call dist.all_reduce for each, on every rank.",
        "After the all-reduce, a tensor holds the sum over all m micro-batches, whoever computed "
        "them.",
    ),
)  # fmt: skip
