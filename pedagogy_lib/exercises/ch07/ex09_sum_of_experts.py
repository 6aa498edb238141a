"""An all-reduce that overwrites what autograd still needs: exercise 7.9."""

from functools import partial
from types import SimpleNamespace

import torch
import torch.distributed as dist

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.differences import ratio, recognise
from ..kit.one_process import why_raised
from ..kit.outcomes import NO_RETURN, plain
from ..kit.trials import kind_of
from .ex07_row_layer import NO_HISTORY

WORLDS = (2, 3, 1)
SAMPLES, WIDTH, FEATURES = 4, 3, 5
BEFORE = {  # what may stand before the sum: and its derivative, from its result
    "relu": (torch.relu, lambda h: (h > 0).double()),
    "sigmoid": (torch.sigmoid, lambda h: h * (1 - h)),
    "exp": (torch.exp, lambda h: h),
    "nothing": (lambda x: x.clone(), torch.ones_like),
}
CHANGED = "the argument is changed in place, and somebody may still need it"
ERRORS = {
    "modified by an inplace operation": "autograd now hears of the change (from mark_dirty, or "
    "from an operation that ends in _), and refuses: relu keeps its result for the backward, and "
    "that is overwritten. To tell of a damage does not undo it",
    "a leaf Variable": CHANGED,
    "view and is being modified": CHANGED,
    "incorrect number of gradients": "backward returns one gradient for each argument of forward",
    "invalid gradient": "the gradient of y is as large as y",
    "Backward' object has no attribute": "ctx has what forward has put there, and nothing else",
}
HANG = "every rank has to make the same calls in the same order, in the backward as well"
NOT_A_FUNCTION = (
    "it is to remain a class SumOfExperts(torch.autograd.Function), with forward and backward; "
    "give check() the class itself"
)
NUDGE = (
    "in the backward relu is asked where it let something through, sigmoid what its result was. "
    "Neither computes it again: it has kept its result. What is in that memory by then?"
)
COPIED_LATE = (
    "the result has memory of its own now, but the sum was written into y before it was copied: "
    "what stands before has still lost its result"
)
MASKED = (
    "after relu it is right, after {} not: the function cannot know what stands before it, so it "
    "cannot put that right in its own backward. Its forward does the damage"
)
BACKWARD_SUMS = (
    "the backward was right: behind the sum all ranks compute the same, so each has the sum's "
    "gradient already. Added up over the ranks it is n times too large"
)
BACKWARD_MEAN = "the backward was right: the derivative of a sum by each of its summands is 1"
NO_GRADIENT = "backward returns None, or nothing: the gradient of the sum is that of each summand"
NOT_SUMMED = "this is the rank's own part: an all-reduce of a copy leaves the sum in the copy"
AVERAGED = "this is the mean of all experts; asked is the sum"
ARGUMENT = "the gradients are right here, but y is not as it was, and somebody may still need it"
SLOPE = "the gradient that comes in is changed in place: others may have it, too"


def expert_inputs(rank):
    """The same x on all ranks, this rank's matrix, and the slope of the sum."""
    draw = lambda seed, *shape: torch.randn(  # noqa: E731
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    a = draw(10 + rank, WIDTH, FEATURES)
    return draw(0, SAMPLES, WIDTH), a, draw(1, SAMPLES, FEATURES)


def try_experts(answer):
    """On a rank: {what stands before: what comes of it}."""
    return {name: try_expert(answer, before) for name, (before, _) in BEFORE.items()}


def try_expert(answer, before) -> SimpleNamespace:
    x, a, slope = expert_inputs(dist.get_rank())
    incoming = []  # the gradient that backward gets
    part = before(x @ a.requires_grad_())
    y = answer.apply(part)
    of = SimpleNamespace(y=plain(y), constant=not getattr(y, "requires_grad", False))
    if kind_of(slope) == kind_or_type(y) and not of.constant:
        y.register_hook(incoming.append)
        (y * slope).sum().backward()
    of.gradient, of.argument = a.grad, part.detach()
    of.argument_stays = torch.equal(part, before(x @ a))
    of.slope_changed = not all(torch.equal(gradient, slope) for gradient in incoming)
    of.is_copy = isinstance(y, torch.Tensor) and y.data_ptr() != part.data_ptr()
    return of


def kind_or_type(y) -> str:
    return kind_of(y) if isinstance(y, torch.Tensor) else type(y).__name__


def examine_experts(answer):
    if not (isinstance(answer, type) and issubclass(answer, torch.autograd.Function)):
        raise Wrong("your class", f"check() was given {answer!r:.60}", NOT_A_FUNCTION)
    for n in WORLDS:
        case = f"{n} rank" + "s" * (n > 1)
        run = try_on_ranks(case, try_experts, answer, world_size=n,
                           explain=partial(why_raised, ERRORS, HANG))  # fmt: skip
        for name in BEFORE:
            found = [of_rank[name] for of_rank in run.values]
            judge_experts(f"{case}, {name} before it", name, found)
        for rank, of_rank in enumerate(run.values):
            need_arguments(case, rank, of_rank.values())
        yield f"{case}: the sum, with {', '.join(BEFORE)} before it, and the gradients"
        yield f"{case}: the arguments of forward and backward stay as they were"


def need_arguments(case, rank, found):
    if not all(of.argument_stays for of in found):
        raise Wrong(case, f"rank {rank}: the argument y has been changed", ARGUMENT)
    if any(of.slope_changed for of in found):
        raise Wrong(case, f"rank {rank}: backward has changed its argument", SLOPE)


def judge_experts(case, name, found):
    before, derivative = BEFORE[name]
    parts = [before(x @ a) for x, a, _ in map(expert_inputs, range(len(found)))]
    total = sum(parts)
    for rank, of in enumerate(found):
        need_sum(case, rank, of, total, parts)
        x, _, slope = expert_inputs(rank)
        wanted = x.T @ (slope * derivative(parts[rank]))
        if of.gradient is None or not close(of.gradient, wanted):
            what = told_gradient(rank, of, wanted, parts, name)
            raise Wrong(case, what, why_gradient(of, wanted, total, name))


def need_sum(case, rank, of, total, parts):
    if kind_or_type(of.y) != kind_of(total):
        what = f"rank {rank} returned {kind_or_type(of.y)}, expected {kind_of(total)}"
        raise Wrong(case, what, NO_RETURN if of.y is None else "")
    if not close(of.y, total):
        what = f"rank {rank}: the sum is off by up to {told_gap(of.y, total)}"
        guesses = {NOT_SUMMED: parts[rank], AVERAGED: total / len(parts)}
        raise Wrong(case, what, recognise(of.y, guesses))
    if of.constant:
        raise Wrong(case, f"rank {rank}: the result does not require a gradient", NO_HISTORY)


def told_gradient(rank, of, wanted, parts, name) -> str:
    """What is wrong with the gradient of a rank's matrix, whose sum is right."""
    right = f"the sum is right on rank {rank}, the gradient of its matrix"
    if of.gradient is None:
        return f"{right} is None"
    what = f"{right} is off by up to {told_gap(of.gradient, wanted)}"
    leaks = int(((parts[rank] == 0) & (of.argument != 0)).sum())
    if name == "relu" and leaks:
        closed = int((parts[rank] == 0).sum())
        what += f". Its own relu is 0 in {closed} places; in {leaks} of them a gradient passes"
    return what


def why_gradient(of, wanted, total, name) -> str:
    if of.gradient is None:
        return NO_GRADIENT
    factor = ratio(of.gradient.flatten(), wanted.flatten())
    if factor:
        return BACKWARD_SUMS if factor > 1 else BACKWARD_MEAN
    if not close(of.argument, total):
        return ""
    if name != "relu":
        return MASKED.format(name)
    return COPIED_LATE if of.is_copy else NUDGE


EXERCISE = Exercise(
    "7.9", "SumOfExperts", examine_experts,
    (
        "The forward is right, and so is the derivative of a sum. The gradient goes wrong only "
        "after that: in what stands before the sum.",
        "relu does not keep x for its backward, it keeps its result: the very tensor that "
        "SumOfExperts is given. dist.all_reduce writes the sum into that memory, and autograd "
        "does not notice.",
        "Add up in memory of its own. y.detach() and view_as() have the same memory; clone() "
        "has not.",
    ),
)  # fmt: skip
