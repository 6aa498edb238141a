"""Numbers of two bytes, with masters of four: the check of 5.3."""

import contextlib
from functools import partial

import torch
from torch import nn

from ...basics.closeness import THROUGH_FLOAT32
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.one_process import why_raised
from ..kit.warming import warm_up
from .given_gradients import BFLOAT16, PLANS, Watched, backward, train_on_rank

# ---- Numbers ---------------------------------------------------------------------------------

RECREATED = (
    "the masters are made anew from the rounded parameters: what rounding has lost stays lost, as "
    "if there were none. Copy once, in __init__; from then on a master changes by steps alone"
)
ZEROS = (
    "a parameter without a gradient has moved. Zeros are a gradient: an optimizer with a memory "
    "goes on moving then. With None it passes over the parameter: its master's `.grad` is None, too"
)
NOT_COPIED = (
    "the masters are right, but the parameters do not get them: write into the parameters, which "
    "the model holds (p.copy_(master)). A new tensor with a name of its own changes no model"
)
LATE = (
    "the parameters get the masters as they were before the optimizer's step: first step, then "
    "round"
)
NOTHING_MOVES = (
    "the optimizer steps, but the masters that it was given at first do not move: their `.grad` is "
    "None when it steps, or others have been made since"
)
ONE_STEP = "one call of step() is one step of the optimizer, after all masters have gradients"
NEVER_STEPS = "step() has to call self.optimizer.step()"
ITSELF = (
    "the optimizer gets the bfloat16 parameters themselves: what a step adds is rounded away. It "
    "steps on copies in float32"
)
HALF = (
    "the masters are copies, but not in float32: a copy has the same dtype, unless it is told "
    "otherwise: .float()"
)
FLOAT64 = "float64 has twice the bytes that a master has: .float()"
NO_COPY = (
    "a master begins as a copy of its parameter, with the same shape and the same values: "
    "p.detach().float()"
)
PLAIN = (
    "a master is a parameter, as whatever an optimizer trains, with a requires_grad of its own: "
    "nn.Parameter(p.detach().float())"
)
KEPT_FLOAT32 = (
    "the values are right, but the model is no longer one of two bytes a number: round into the "
    "parameter's own dtype, which may be bfloat16 or float16 (copy_ does; .to(p.dtype), too)"
)
LEFT = (
    "the next backward adds to it. And it is memory: set p.grad to None when the master has got it"
)
LEFT_IN_MASTER = (
    "a master's gradient is needed during the step alone: after it, it is 4 bytes a parameter for "
    "nothing, and a parameter that has no gradient next time would step with this one: "
    "self.optimizer.zero_grad()"
)
ZEROS_LEFT = (
    "zeros are a gradient, and take as many bytes: None is meant (set_to_none=True, which is usual)"
)
NO_PAIR = (
    "masters and parameters do not belong together: each parameter has its master at the same "
    "place of the list, a frozen one as well"
)
ERRORS = {  # words of an error: what they mean
    "'NoneType' object": "a parameter may have no gradient: then p.grad is None. Its master's is "
    "None, too, and the optimizer passes over it",
    "assign a gradient with dtype": "the gradient has two bytes a number, and its master four: "
    "p.grad.float()",
    "a leaf Variable that requires grad": "autograd watches over parameters: write into them under "
    "torch.no_grad(), as the decorator of step() does",
    "non-leaf": "a master is a leaf of its own, not the outcome of an operation on the parameter: "
    "p.detach().float(), and nn.Parameter around it",
    "has no attribute 'masters'": "__init__ makes self.masters, a list of float32 copies; then the "
    "optimizer steps on them",
    "must match the size": NO_PAIR,
    "assign a gradient of size": NO_PAIR,
}  # fmt: skip


def examine_mixed_precision(answer):
    warm_up()
    explain = partial(why_raised, ERRORS, "")
    run = try_on_ranks("training", train_on_rank, answer, world_size=1, explain=explain)
    for plan, found in zip(PLANS, run.values[0]):
        case = str(plan)
        judge_kinds(case, found["kinds"])
        for number in range(len(plan.gradients)):
            judge_step(f"{case}, step {number + 1}", plan, found, number)
        yield f"{case}: {told_training(plan, found)}"
    yield from examine_bytes(answer, explain)


def told_training(plan, found) -> str:
    if len(plan.start) > 1:
        return f"after each of {len(found['seen'])} steps the parameters are the rounded masters"
    first, last = plan.start[0][0].item(), found["seen"][-1]["values"][0][0].item()
    return f"{first:g} has become {last:g}; without masters it would still be {first:g}"


def name_of(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def judge_kinds(case, kinds):
    """Raise `Wrong` unless the optimizer has been given float32 copies of the parameters."""
    if not kinds:
        raise Wrong(
            case, "there is no optimizer", "__init__ ends with make_optimizer(self.masters)"
        )
    for dtype, is_itself, same, is_parameter in kinds:
        if dtype != torch.float32:
            what = f"the optimizer steps on tensors in {name_of(dtype)}, expected float32"
            why = ITSELF if is_itself else FLOAT64 if dtype == torch.float64 else HALF
            raise Wrong(case, what, why)
        if not same:
            what = "a tensor that the optimizer steps on has not the values of any parameter"
            raise Wrong(case, what, NO_COPY)
        if not is_parameter:
            raise Wrong(case, "the optimizer steps on tensors that are no parameters", PLAIN)


def judge_step(case, plan, found, number):
    seen, truth = found["seen"][number], found["truth"][number]
    if seen["steps"] != number + 1:
        what = f"the optimizer has stepped {seen['steps']} times in {number + 1} calls of step()"
        raise Wrong(case, what, ONE_STEP if seen["steps"] else NEVER_STEPS)
    for index, (got, wanted) in enumerate(zip(seen["values"], truth)):
        who = f"parameter {index}"
        if got.dtype != plan.dtype:
            what = f"{who} is {name_of(got.dtype)} now, expected {name_of(plan.dtype)}"
            raise Wrong(case, what, KEPT_FLOAT32)
        if not is_rounded(got, wanted):
            why = why_values(plan, found, number)
            raise Wrong(case, f"{who}{first_difference(got, wanted.to(plan.dtype))}", why)
    judge_left(case, "parameter", seen["left"], LEFT)
    judge_left(case, "the master of parameter", seen["left_in_masters"], LEFT_IN_MASTER)


def judge_left(case, who, left, why):
    for index, gradient in enumerate(left):
        if gradient is not None:
            zero = not gradient.any()
            what = f"{who} {index} still has a gradient" + (", of zeros" if zero else "")
            raise Wrong(case, f"{what}; expected None", ZEROS_LEFT if zero else why)


def is_rounded(got, wanted) -> bool:
    """Whether `wanted` rounds to it; another order of operations may change its last digit."""
    slack = THROUGH_FLOAT32 * wanted.abs()
    low, high = ((wanted + sign * slack).to(got.dtype) for sign in (-1, 1))
    return got.shape == wanted.shape and bool(((low <= got) & (got <= high)).all())


def first_difference(got, wanted) -> str:
    if got.shape != wanted.shape:
        return f" has shape {list(got.shape)}, expected {list(wanted.shape)}"
    first = tuple((got != wanted).nonzero()[0].tolist())
    at = str(list(first)) if first else ""
    return f"{at} is {got[first].item():.6g}, expected {wanted[first].item():.6g}"


def why_values(plan, found, number) -> str:
    """Why the parameters after a step are off; before it they were right."""
    seen, truth = found["seen"], found["truth"]
    values = seen[number]["values"]
    for guess, why in {"recreated": RECREATED, "zeros": ZEROS}.items():
        if fits(values, found[guess][number]):
            return why
    if not fits(values, truth[number - 1] if number else plan.start):
        return ""
    if not seen[number]["moved"]:
        return NOTHING_MOVES
    is_late = number + 1 < len(seen) and fits(seen[number + 1]["values"], truth[number])
    return LATE if is_late else NOT_COPIED


def fits(values, wanted) -> bool:
    return all(map(is_rounded, values, wanted))


# ---- Bytes -----------------------------------------------------------------------------------

COUNT, SIZE = 16, 1000  # parameters, and elements of each


def bytes_on_rank(answer):
    """Bytes of the parameters, of their gradients and masters, and of what Adam keeps.

    Measured: all that there is before and after two steps, and in the second.
    """
    parameters = [nn.Parameter(torch.ones(SIZE, dtype=BFLOAT16)) for _ in range(COUNT)]
    gradients = [torch.ones(SIZE, dtype=BFLOAT16) for _ in range(COUNT)]
    with measure("before"):
        pass
    watch = Watched(partial(torch.optim.Adam, lr=0.1))
    mixed = answer((p for p in parameters), watch)
    for step in range(2):
        backward(parameters, gradients)
        of_gradients = [p.grad for p in parameters]
        counts = {"itself": parameters, "gradient": of_gradients, "master": watch.masters}
        counts = {what: sum(x.nbytes for x in xs) for what, xs in counts.items()}
        del of_gradients
        with measure("a step") if step else contextlib.nullcontext():
            mixed.step()
    with measure("after"):
        pass
    state = [x for of in watch.optimizer.state.values() for x in of.values()]
    return counts | {"Adam": sum(x.nbytes for x in state)}


def examine_bytes(answer, explain):
    case = "bytes of a number"
    run = try_on_ranks(case, bytes_on_rank, answer, world_size=1, explain=explain)
    counts = {what: count / COUNT / SIZE for what, count in run.values[0].items()}
    before, most, after = (
        run[label].peak_bytes[0]["total"] / COUNT / SIZE for label in ("before", "a step", "after")
    )
    more = after - before - counts["master"] - counts["Adam"]
    if more > 0.5:
        what = f"between steps there are {more:.1f} bytes a number that nobody has asked for"
        raise Wrong(case, what, KEPT)
    most += counts["itself"] - before
    if most > sum(counts.values()) + 4 + 2.5:  # and what is needed for one parameter at a time
        what = f"during a step there are up to {most:.1f} bytes a number, expected 20"
        raise Wrong(case, what, ONE_MORE_COPY)
    told = ", ".join(f"{what} {count:.0f}" for what, count in counts.items())
    yield f"{case}: {told}; in a step at most {most:.0f}"


KEPT = (
    "a step leaves something behind besides the parameters, the masters, and what the optimizer "
    "keeps: gradients, or copies?"
)
ONE_MORE_COPY = (
    "that is one more float32 copy of everything: 2 for a parameter, 2 for its gradient, 4 for its "
    "master, 8 for Adam, and 4 for the gradient in float32 are enough"
)


EXERCISE = Exercise(
    "5.3", "MixedPrecision", examine_mixed_precision,
    (
        "What has to be float32 for a small step not to be lost: what a step is added to. "
        "Which tensors does the optimizer step on, then?",
        "__init__: for each parameter a copy in float32, p.detach().float(), as an "
        "nn.Parameter: a list, in the same order. It is made once.",
        "step, in this order: each gradient to its master, in float32 (None stays None); the "
        "optimizer's step; each master into its parameter. p.copy_(master) rounds.",
        "And no gradient is left: p.grad = None for the parameters, "
        "self.optimizer.zero_grad() for the masters.",
    ),
    lab="memory",
)  # fmt: skip
