"""An all-reduce that overwrites what autograd still needs: exercise 7.9."""

import torch
import torch.distributed as dist

from ...basics.closeness import told_gap
from ...basics.units import brief
from ..kit import At, RankExercise, World, never
from ..kit.both_ways import HANG, NOT_CONSTANT, both_ways, right
from ..kit.refused import Refused

FINDS_A_BUG = True

SAMPLES, WIDTH, FEATURES = 4, 3, 5
BEFORE = {  # what may stand before the sum: and its derivative, from its result
    "relu": (torch.relu, lambda h: (h > 0).double()),
    "sigmoid": (torch.sigmoid, lambda h: h * (1 - h)),
    "exp": (torch.exp, lambda h: h),
    "nothing": (lambda x: x.clone(), torch.ones_like),
}
CHANGED = "the argument is changed in place, and somebody may still need it"


def expert_inputs(rank):
    """The same x on all ranks, this rank's matrix, and the slope of the sum."""
    shapes = {0: (SAMPLES, WIDTH), 10 + rank: (WIDTH, FEATURES), 1: (SAMPLES, FEATURES)}
    return [
        torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for seed, shape in shapes.items()
    ]


def try_expert(answer, group, case):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        what = f"check() was given {brief(answer, 60)}"
        raise Refused(what, "it is to remain a class SumOfExperts(torch.autograd.Function), with "
                      "forward and backward; give check() the class itself")  # fmt: skip
    (x, a, slope), (before, _), noted = expert_inputs(dist.get_rank()), BEFORE[case.args[0]], []
    part = before(x @ a.requires_grad_())
    as_it_was = part.detach().clone()

    def call():
        y = answer.apply(part)
        noted.append(isinstance(y, torch.Tensor) and y.data_ptr() != part.data_ptr())
        noted.append(not torch.equal(part.detach(), as_it_was))  # it may be put back later
        return y

    found = both_ways(call, {"its matrix": a}, slope)
    found |= {"argument": part.detach(), "is_copy": noted[0]}
    if case.args == ("nothing",):  # after relu it has done more: a gradient is wrong
        found["overwritten"] = noted[1] or not torch.equal(part.detach(), as_it_was)
    return found


def parts_of(trial) -> list:
    """What comes before the sum, of all ranks."""
    before, _ = BEFORE[trial.case.args[0]]
    return [before(x @ a) for x, a, _ in map(expert_inputs, range(trial.n))]


def y_of(trial, place):
    parts = parts_of(trial)
    return sum(parts), {
        "this is the rank's own part: an all-reduce of a copy leaves the sum in the copy":
            parts[place],
        "this is the mean of all experts; asked is the sum": sum(parts) / trial.n,
    }  # fmt: skip


def gradients_of(trial, place):
    n, (name,), parts = trial.n, trial.case.args, parts_of(trial)
    x, _, slope = expert_inputs(place)
    wanted, damaged = (x.T @ (slope * BEFORE[name][1](h)) for h in (parts[place], sum(parts)))
    if name != "relu":
        damage = (
            f"after relu it is right, after {name} not: the function cannot know what stands "
            "before it, so it cannot put that right in its own backward. Its forward does the "
            "damage"
        )
    elif trial[place].is_copy:
        damage = (
            "the result has memory of its own now, but the sum was written into y before it was "
            "copied: what stands before has still lost its result"
        )
    else:
        damage = (
            "in the backward relu is asked where it let something through, sigmoid what its result "
            "was. Neither computes it again: it has kept its result. What is in that memory by "
            "then? (detach() makes no copy of it)"
        )
    return {"its matrix": wanted}, {why: {"its matrix": wrong} for why, wrong in {
        "the backward was right: behind the sum all ranks compute the same, so each has the sum's "
        "gradient already. Added up over the ranks it is n times too large": n * wanted,
        "the backward was right: the derivative of a sum by each of its summands is 1": wanted / n,
        "backward returns None, or nothing: the gradient of the sum is that of each summand": None,
    }.items()} | ({damage: {"its matrix": damaged}} if name != "nothing" else {})  # fmt: skip


def gates(trial, place) -> str:
    """Where a gradient passes a relu that is 0: of a rank's matrix, whose sum is right."""
    got, own = trial[place].gradients["its matrix"], parts_of(trial)[place]
    told = f"the sum is right on {trial.who(place)}, the gradient of its matrix is "
    if got is None:
        return f"{told}None"
    told += f"off by up to {told_gap(got, gradients_of(trial, place)[0]['its matrix'])}"
    closed, leaks = own == 0, (own == 0) & (trial[place].argument != 0)
    if trial.case.args != ("relu",) or not leaks.any():
        return told
    passed = f"in {leaks.sum()} of them a gradient passes"
    return f"{told}. Its own relu is 0 in {closed.sum()} places; {passed}"


EXERCISE = RankExercise(
    "7.9", "SumOfExperts",
    cases=[
        At(World(n), (name,), f", {name} before it")
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
    told="the sum, and the gradient; the arguments of both stay as they were",
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
    lost=HANG,
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
