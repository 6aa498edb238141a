"""Programs of tensor parallelism with a bug, tried forward and backward; and exercise 7.7.

The truth is one process that has all parts. All ranks have the same slope of y: they compute the
same loss from it.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
import torch.distributed as dist

from ...basics.closeness import close
from ...basics.units import counted
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...course.labs import find_lab
from ...measuring.recorder import measure
from ..kit.differences import ratio, recognise, told
from ..kit.groups import need_known, noting_passed
from ..kit.one_process import why_raised
from ..kit.outcomes import NO_RETURN, plain
from ..kit.trials import kind_of, numbers, ranks_text

WORLDS = (1, 2, 3)
PASSES = 2  # with the same parameters: what the first leaves behind would show in the second
HANG = "every rank has to make the same calls in the same order, in the backward as well"
ERRORS = {
    "'tensor_parallel' is not defined": 'run the cell with tensor_parallel = lab("tensor_parallel")'
    " first",
    "a leaf Variable": "an argument is changed in place: whoever calls the function still needs it",
    "cannot be multiplied": "a part is multiplied by what it does not fit. Who has which columns?",
}
NO_HISTORY = (
    "y has no history: a backward cannot begin there. What is computed from x.detach(), from "
    "x.data, or under no_grad, is a constant for autograd"
)
AGAIN = (
    "the first time it was right: what does a call leave behind? A hook on a parameter stays "
    "there, and the next call adds another one"
)
ARGUMENT = "whoever calls the function still needs it as it was: change a copy, or make a new one"


def lab_of(answer):
    """The lab that an answer uses: the same object, so that a rank reads it once."""
    used = getattr(answer, "__globals__", {}).get("tensor_parallel")
    return used or find_lab("tensor_parallel")


def lab_fault(lab, *names) -> str:
    """On a rank: which exercise comes first, if `Copy` or `AllReduce` of the lab is not right."""
    x, n = torch.ones(1, requires_grad=True), dist.get_world_size()
    right = {"Copy": ("7.2", 1, n), "AllReduce": ("7.3", n, 1)}
    for name in names:
        number, forward, backward = right[name]
        y = getattr(lab, name).apply(x)
        if y.item() != forward or torch.autograd.grad(y, x)[0].item() != backward:
            return f'{name} of your lab is not right yet. First: check("{number}")'
    return ""


@contextlib.contextmanager
def blaming(fault):
    """What is wrong in here is put down to a fault of the lab, if there is one."""
    try:
        yield
    except Wrong as wrong:
        raise Wrong(wrong.case, wrong.what, fault or wrong.why) from None


def both_ways(call: Callable, leaves: dict, slope) -> SimpleNamespace:
    """On a rank: y, the gradient of each leaf, and which leaves have been changed."""
    before = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    with measure("forward"):
        y = call()
    fits, passed = isinstance(y, torch.Tensor) and y.shape == slope.shape, []
    if fits and y.requires_grad:
        with measure("backward"), noting_passed() as passed:
            (y * slope).sum().backward()  # y.backward(slope) would import sympy, for a second
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    for leaf in leaves.values():
        leaf.grad = None
    changed = [name for name, leaf in leaves.items() if not torch.equal(leaf, before[name])]
    constant = fits and not y.requires_grad
    return SimpleNamespace(y=plain(y), gradients=gradients, changed=changed, constant=constant,
                           passed=passed)  # fmt: skip


def need_plausible(case, found, wanted):
    """Raise `Wrong` unless every rank has a y of this shape, from arguments that are as before."""
    for rank, of in enumerate(found):
        if not isinstance(of.y, torch.Tensor):
            what = f"rank {rank} returned {of.y!r:.60}; expected a tensor"
            raise Wrong(case, what, NO_RETURN if of.y is None else "")
        if kind_of(of.y) != kind_of(wanted):
            raise Wrong(case, f"rank {rank}: y is {kind_of(of.y)}, expected {kind_of(wanted)}")
        if of.changed:
            raise Wrong(case, f"rank {rank}: {' and '.join(of.changed)} has changed", ARGUMENT)
        if of.constant:
            raise Wrong(case, f"rank {rank}: y.requires_grad is False", NO_HISTORY)


def told_calls(run) -> str:
    """How many calls of torch.distributed a forward and a backward make."""
    forward, backward = (len(run[label].calls[0]) for label in ("forward", "backward"))
    passes = len(run["forward"].spans[0])
    return f"calls: {forward / passes:g} forward, {backward / passes:g} backward"


def wrong_gradients(found, right) -> dict[str, list[int]]:
    """{name: the ranks on which its gradient is wrong}."""
    off = {
        name: [k for k, (a, b) in enumerate(zip(found, right))
               if a.gradients[name] is None or not close(a.gradients[name], b[name])]
        for name in right[0]
    }  # fmt: skip
    return {name: ranks for name, ranks in off.items() if ranks}


def told_gradients(off, right) -> str:
    fine = [name for name in right[0] if name not in off]
    places = {ranks_text(ranks): None for ranks in off.values()}
    wrong = "; of ".join(
        f"{', '.join(name for name in off if ranks_text(off[name]) == place)} on {place}"
        for place in places
    )
    return f"y is right. Wrong is the gradient of {wrong}" + (
        f"; right is that of {', '.join(fine)}" if fine else ""
    )


# ---- 7.7: a row layer's bias -----------------------------------------------------------------

LEADS = ((3,), (2, 2))  # of x, before its inputs
INPUTS, OUTPUTS = 2, 3  # inputs of each rank
ROW_NUDGE = (
    "with 1 rank it is right, and each further rank makes it worse by as much. Write down for 2 "
    "ranks what each of them computes, and what the all-reduce makes of it"
)
BIAS_SHARE = "only a share of the bias is in y: what is added behind the sum is added once"
SHARED_GRADIENT = (
    "a part of the bias on each rank makes y right, but autograd knows that it is a part: each "
    "rank has 1/n of the gradient, and the bias learns more slowly than in one process"
)
ONE_RANKS_BIAS = (
    "y has the bias once, as it should; but every rank has a copy of it, and only one rank's copy "
    "learns. From the first step on they differ, and so does what each rank would save. On every "
    "rank it has to have a part in y"
)
COUNTED = (
    "y has the bias once, but on its way to y it is added and taken away again: autograd counts "
    "how often it goes in on this rank, and that is not once"
)
NEVER_TRAINED = "the bias has no part in y that autograd knows of: on no rank will it learn"
BACKWARD_SUMS = (
    "a sum behind the forward's sum: from y on all ranks compute the same, so each has y's whole "
    "gradient already. Added up again it is n times too large (as torch.distributed.nn does it)"
)
LOUD_BACKWARD = (
    "a part of the bias goes into the sum from every rank, and its gradient has to be put together "
    "again. Behind the sum each rank can add the whole bias: it has y's gradient already, and "
    "nothing is sent in the backward"
)
NOT_ADDED = "each rank has what comes from its own inputs: nobody has added that up"
AVERAGED = "the ranks' products are summands of y: they are to be added, not averaged"


def row_inputs(rank, lead) -> dict:
    return {
        "x": numbers(rank, (*lead, INPUTS), torch.float64, 0),
        "weight": numbers(rank, (OUTPUTS, INPUTS), torch.float64, 1),
        "bias": numbers(0, (OUTPUTS,), torch.float64, 2),
    }


def row_slope(lead):
    return numbers(0, (*lead, OUTPUTS), torch.float64, 3)


def try_row(answer, lab):
    """On a rank: what each shape of x gives, twice; and the lab's fault."""
    found = []
    for lead in LEADS:
        leaves = row_inputs(dist.get_rank(), lead)
        for leaf in leaves.values():
            leaf.requires_grad_()
        call = partial(answer, *leaves.values())
        found += [both_ways(call, leaves, row_slope(lead)) for _ in range(PASSES)]
    return found, lab_fault(lab, "AllReduce")


def examine_row(answer):
    lab = lab_of(answer)
    for n in WORLDS:
        run = try_on_ranks(counted(n, "rank"), try_row, answer, lab, world_size=n,
                           explain=partial(why_raised, ERRORS, HANG))  # fmt: skip
        passes, faults = zip(*run.values)
        for number, found in enumerate(zip(*passes)):
            lead = LEADS[number // PASSES]
            again = ", a second time" if number % PASSES else ""
            with blaming(faults[0]):
                judge_row(f"{counted(n, 'rank')}, x {[*lead, INPUTS]}", found, lead, again)
        need_quiet_backward(counted(n, "rank"), run)
        yield f"{counted(n, 'rank')}: y and 3 gradients are those of one process; {told_calls(run)}"


def judge_row(case, found, lead, again):
    """Of x, weight and bias of all ranks: one layer, forward and backward."""
    case, inputs = case + again, [row_inputs(rank, lead) for rank in range(len(found))]
    slope, bias = row_slope(lead), inputs[0]["bias"]
    products = [of["x"] @ of["weight"].T for of in inputs]
    wanted = sum(products) + bias
    need_plausible(case, found, wanted)
    for rank, of in enumerate(found):
        if not close(of.y, wanted):
            what = f"rank {rank}: {told_difference(of.y - wanted)}"
            raise Wrong(case, what, why_row(of.y, products, bias, rank))
    right = [
        {
            "x": slope @ of["weight"],
            "weight": torch.einsum("...o,...i->oi", slope, of["x"]),
            "bias": slope.flatten(0, -2).sum(0),
        }
        for of in inputs
    ]
    off = wrong_gradients(found, right)
    if off:
        why = AGAIN if again else why_row_gradients(found, off, right)
        raise Wrong(case, told_gradients(off, right), why)
    need_known(case, [of.passed for of in found])


def need_quiet_backward(case, run):
    for rank, calls in enumerate(run["backward"].calls):
        sent = sum(call.sent_bytes for call in calls)
        if sent:
            names = ", ".join(sorted({call.name for call in calls}))
            what = f"y and 3 gradients are right, but rank {rank} sends {sent} bytes in the"
            raise Wrong(f"cost, {case}", f"{what} backward ({names}), expected 0", LOUD_BACKWARD)


def told_difference(difference) -> str:
    rows = difference.flatten(0, -2)
    if bool((rows == rows[0]).all()):
        return f"every row of y is off by the same numbers: {told(rows[0])}"
    return f"y is off by up to {difference.abs().max():.4g}"


def why_row(y, products, bias, rank) -> str:
    n = len(products)
    return recognise(y, {
        ROW_NUDGE: sum(products) + n * bias,
        "there is no bias in y any more": sum(products),
        BIAS_SHARE: sum(products) + bias / n,
        AVERAGED: sum(products) / n + bias,
        NOT_ADDED: products[rank] + bias,
    })  # fmt: skip


def why_row_gradients(found, off, right) -> str:
    name, rank = next((name, ranks[0]) for name, ranks in off.items())
    if name != "bias":
        got = found[rank].gradients[name]
        factor = got is not None and ratio(got.flatten(), right[rank][name].flatten())
        return BACKWARD_SUMS if factor and factor > 1 else ""
    got = [of.gradients["bias"] for of in found]
    if all(x is None for x in got):
        return NEVER_TRAINED
    if len(off["bias"]) < len(found):
        return ONE_RANKS_BIAS
    share = right[rank]["bias"] / len(found)
    return SHARED_GRADIENT if got[rank] is not None and close(got[rank], share) else COUNTED


EXERCISE = Exercise(
    "7.7", "row_layer", examine_row,
    (
        "Take 2 ranks, one sample, and a bias of 10. What does each rank have before the "
        "all-reduce? What does it have afterwards?",
        "The products are summands, and have to be added up; the bias is there once. A smaller "
        "bias on each rank makes the forward right, and the backward wrong.",
        "Leave the bias out of F.linear. What has left the parallel region is the same on all "
        "ranks: there every rank adds the whole bias.",
    ),
)  # fmt: skip
