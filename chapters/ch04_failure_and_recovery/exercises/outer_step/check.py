"""DiLoCo's outer step: the mean of the workers' changes, and one step of the outer optimizer."""

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World

from .cases import LARGE_SHAPES, PAPER, SHAPES, describe_trial, make_fault_case, train
from .truth import ALL_WEIGHTS, SEE_ORDER, mistakes, most_bytes, truth

EXERCISE = RankExercise(
    "outer_step",
    lab="diloco",
    cases=[
        RankCase(World(3), (SHAPES, *PAPER, None)),
        RankCase(World(2), (SHAPES, 0.5, 0.8, False, None), ", another outer optimizer"),
        RankCase(World(1), (SHAPES, *PAPER, None)),
        make_fault_case(3, "call", 1, "the first all-reduce of round 1 fails"),
        make_fault_case(3, "call", 2, "the second all-reduce of round 1 fails"),
        make_fault_case(2, "call", 3, "the third all-reduce of round 1 fails"),
        make_fault_case(2, "call", 4, "a fourth call in round 1 would fail"),
        make_fault_case(
            3, "wait", 1, "the first all-reduce of round 1 fails when it is waited for"
        ),
        make_fault_case(
            2, "wait", 2, "the second all-reduce of round 1 fails when it is waited for"
        ),
        make_fault_case(2, "step", 1, "a step of the optimizer fails"),
        RankCase(GROUP, (SHAPES, *PAPER, None)),
        RankCase(World(3), (LARGE_SHAPES, *PAPER, None), ", many weights"),
    ],
    work=train,
    found=lambda case: ("rounds",) if case.args[0] == SHAPES else (),
    facts=[
        Equals("rounds", truth, mistakes, "round", otherwise=SEE_ORDER),
        Sends(most_bytes, "an all-reduce sends", {"gather": ALL_WEIGHTS}),
    ],
    right=describe_trial,
    warm=True,
    hints=(
        "How far has this worker gone from the common weights? And all of them, on average? That "
        "is the gradient of the outer optimizer, which takes it with a minus.",
        "common.grad = common - own, for each pair; sum it over the ranks, and divide. When all "
        "gradients are there, one optimizer.step().",
        "Then own.copy_(common), under torch.no_grad().",
    ),
)
