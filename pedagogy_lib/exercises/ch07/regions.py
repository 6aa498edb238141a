"""Into the parallel region, and out of it: exercises 7.2 and 7.3."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Wrong
from ...measuring.bytes_of_calls import tensors_in
from ..kit.differences import first_difference
from ..kit.groups import Calls
from ..kit.on_ranks import IN_A_GROUP
from ..kit.one_world import (
    WORLD,
    Case,
    fitting,
    found_in,
    in_memory_of,
    need_tensor,
    need_traffic,
    ring_bytes,
    try_cases,
)
from ..kit.trials import numbers

SHAPE = 2, 3
BYTES = 48


@dataclass(frozen=True)
class Region(Case):
    """What Copy and AllReduce are tried on.

    noted     whether they get a `total` that notes its calls
    recorded  whether autograd records
    """

    noted: bool = False
    recorded: bool = True


PLAIN = Region("forward and backward")
UNRECORDED = Region("under no_grad", recorded=False)
NOTED = Region("a `total` of its own", noted=True)
IN_GROUPS = Region("forward and backward", in_groups=True)
REGIONS = [PLAIN, UNRECORDED, NOTED, IN_GROUPS]
TOLD = {
    "Copy": {
        PLAIN: f"x as it is, nothing sent; its gradient is the sum, {BYTES} bytes in an all-reduce",
        UNRECORDED: "x as it is",
        NOTED: "adds up the gradients, once",
        IN_GROUPS: "the sum of the group's gradients",
    },
    "AllReduce": {
        PLAIN: f"the sum, {BYTES} bytes in an all-reduce; the gradient as it comes, nothing sent",
        UNRECORDED: "the sum",
        NOTED: "adds up x, once",
        IN_GROUPS: "the sum over the group",
    },
}
STILL_A_FUNCTION = "it is to stay a torch.autograd.Function: that has `apply`"
REGION_ERRORS = {
    "incorrect number of gradients": "backward returns one gradient for each argument of forward "
    "behind ctx, and these are x, group, total. The last two have none: None",
    "Backward' object has no attribute": "backward knows what forward has kept: ctx.group = group",
    "can only save variables": "save_for_backward is for tensors. Anything else is an attribute "
    "of ctx: ctx.group = group",
    "modified by an inplace operation": "what came before has kept x for its backward, and "
    "mark_dirty tells autograd that it has changed, so it refuses: give dist.all_reduce a copy",
    "invalid gradient at index 0": "the gradient of x has the shape of x",
    "doesn't require gradient": "the output has lost its history: forward gets and returns plain "
    f"tensors, and apply does the rest; {STILL_A_FUNCTION}",
    "has no attribute 'apply'": STILL_A_FUNCTION,
    "NoneType' object is not callable": "`total` has a value if nobody gives one: summed",
}


class Total:
    """A `total` that notes when it is called."""

    def __init__(self, summed):
        self.summed, self.phase, self.calls = summed, "forward", []

    def __call__(self, x, group=None):
        self.calls.append(self.phase)
        return self.summed(x, group)


def examine_region(answer):
    name = answer.__name__
    run = try_cases(region_on_rank, answer, REGIONS, REGION_ERRORS)
    for case, found in found_in(run, REGIONS):
        judge_forward(name, case, found)
        if case.recorded:
            judge_backward(name, case, found)
        if case.noted:
            judge_totals(name, case, found)
        elif not case.in_groups:
            judge_traffic(name, case, found)
        yield f"{case}: {TOLD[name][case]}"


def given(name, rank):
    """x and the gradient of what comes out.

    All ranks have the same x before Copy, and the same gradient behind AllReduce.
    """
    equal_x, equal_gradient = name == "Copy", name == "AllReduce"
    x = numbers(9 if equal_x else rank, SHAPE, torch.float64) - 4
    return x, numbers(9 if equal_gradient else rank, SHAPE, torch.float64, salt=1)


def region_on_rank(answer, group, case):
    leaf, gradient = given(answer.__name__, dist.get_rank())
    x = F.relu(leaf.requires_grad_())  # whose backward needs x as it is now
    before, incoming = x.detach().clone(), gradient.clone()
    total = Total(answer.lab.summed)
    arguments = [x, group, total] if case.noted else [x, group]
    with Calls() as calls, torch.set_grad_enabled(case.recorded):
        y = getattr(answer.lab, answer.__name__).apply(*arguments)
    need_tensor(y, "forward")
    found = {
        "y": y.detach().clone(),
        "touched": not close(x.detach(), before),
        "shares": in_memory_of(y, x),
        "kept": kept_by(y),
        "forward": calls.made,
    }
    if case.recorded:
        total.phase = "backward"
        with Calls() as calls:
            y.register_hook(lambda _: incoming)
            y.sum().backward()
        found |= {"gradient": leaf.grad, "changed": not close(incoming, gradient)}
        found["backward"] = calls.made
    return found | {"totals": total.calls}


def kept_by(y) -> bool:
    """Whether the context of a Function keeps any tensor for its backward."""
    context = y.grad_fn
    kept = [*getattr(context, "__dict__", {}).values(), *getattr(context, "saved_tensors", ())]
    return bool(list(tensors_in(kept)))


def sums(name, case, rank):
    """Over the group, and over the world: x and gradients."""
    everybody = [(F.relu(x), gradient) for x, gradient in (given(name, r) for r in range(WORLD))]
    members = [everybody[other] for other in case.members(rank)]
    return [[sum(of) for of in zip(*some)] for some in (members, everybody)]


def judge_forward(name, case, found):
    for rank, of in enumerate(found):
        if of["touched"]:
            raise Wrong(str(case), f"rank {rank}: x has changed in place", IN_PLACE[name])
    tables = [guesses_at_forward(name, case, rank) for rank in range(WORLD)]
    need_right(case, "the output", [of["y"] for of in found], tables)
    for rank, of in enumerate(found):
        if of["shares"] != (name == "Copy"):
            what = f"rank {rank}: the output {'shares' if of['shares'] else 'does not share'}"
            raise Wrong(str(case), f"{what} memory with x", MEMORY[name])
        if of["kept"]:
            raise Wrong(str(case), f"rank {rank}: ctx keeps a tensor for the backward", KEPT)


IN_PLACE = {
    "Copy": "forward has nothing to compute: all ranks have the same x already",
    "AllReduce": "x belongs to the caller, and what came before may have kept it for its backward: "
    "give dist.all_reduce a copy",
}
KEPT = (
    "its memory would be taken until the backward, in every layer, and backward needs none: the "
    "gradient is all it works with"
)
MEMORY = {
    "Copy": "a copy of x takes its memory once more, until the backward: return x as it is, or a "
    "view of it",
    "AllReduce": "the sum is to be in a new tensor, also where there is one rank alone: x belongs "
    "to those who computed it",
}


def need_right(case, who, got, tables):
    """Raise `Wrong` unless every rank has what its table has under RIGHT."""
    for rank, table in enumerate(tables):
        if not close(got[rank], table[RIGHT]):
            what = f"rank {rank}: {who} {first_difference(got[rank], table[RIGHT])}"
            why = fitting(got, tables) or (IN_A_GROUP if case.in_groups else "")
            raise Wrong(str(case), what, why)


RIGHT = "right"


def guesses_at_forward(name, case, rank):
    """{sentence: output}, with the truth under RIGHT."""
    x, n = F.relu(given(name, rank)[0]), case.seat(rank)[1]
    (total, _), (of_world, _) = sums(name, case, rank)
    if name == "Copy":
        return {
            RIGHT: x,
            "the forward adds up, what every rank has already: all have the same x. It is the "
            "backward's work; the other way round is AllReduce": total,
        }
    return {
        RIGHT: total,
        "nothing is added up: each rank has its own summand still. dist.all_reduce is the "
        "forward's work here; the other way round is Copy": x,
        "the mean, not the sum: each rank has a summand": total / n,
        IN_A_GROUP: of_world,
    }


def judge_backward(name, case, found):
    for rank, of in enumerate(found):
        if of["changed"]:
            raise Wrong(str(case), f"rank {rank}: the gradient that comes in has changed", CHANGED)
    tables = [guesses_at_gradient(name, case, rank) for rank in range(WORLD)]
    need_right(case, "x's gradient", [of["gradient"] for of in found], tables)


CHANGED = (
    "what comes into a backward belongs to others as well: a residual connection hands the same "
    "tensor to both its branches. Add up in a new one, as `summed` does"
)


def guesses_at_gradient(name, case, rank):
    x, gradient = given(name, rank)
    n, mask = case.seat(rank)[1], x > 0
    (_, total), (_, of_world) = sums(name, case, rank)
    own, none = mask * gradient, {"x gets no gradient: backward returns None for it": None}
    if name == "Copy":
        return none | {
            RIGHT: mask * total,
            "this is the gradient that comes through this rank's part alone. x went into "
            "everybody's part, so the sum is its gradient; `total` returns it, in a new tensor":
                own,
            "the mean, not the sum. x went into every rank's part, so its gradient is the sum":
                mask * total / n,
            "the sum is taken twice": n * mask * total,
            IN_A_GROUP: mask * of_world,
        }  # fmt: skip
    return none | {
        RIGHT: own,
        "n times too much: the backward adds up, too, as that of torch.distributed.nn does. But "
        "behind the sum all ranks compute the same, so each has all of the gradient already":
            mask * total,
        "1/n of it: the derivative of a sum by each of its parts is 1": own / n,
    }  # fmt: skip


def judge_totals(name, case, found):
    phase = "backward" if name == "Copy" else "forward"
    for rank, of in enumerate(found):
        if of["totals"] != [phase]:
            what = f"rank {rank}: total was called {len(of['totals'])} times, expected once"
            raise Wrong(str(case), f"{what}, in the {phase}", TOTAL)


TOTAL = "the caller may bring another way to add up: call total(…, group), in place of all_reduce"


def judge_traffic(name, case, found):
    sent = {"forward": 0.0, "backward": ring_bytes(BYTES)}
    if name == "AllReduce":
        sent = {"forward": ring_bytes(BYTES), "backward": 0.0}
    for when in ("forward", "backward") if case.recorded else ("forward",):
        calls = [of[when] for of in found]
        need_traffic(case, calls, when, sent[when], WHY_SENT[name, when])


WHY_SENT = {
    ("Copy", "forward"): "all ranks have the same x already: nothing has to travel",
    ("Copy", "backward"): "one all-reduce of the gradient is enough",
    ("AllReduce", "forward"): "one all-reduce of x is enough",
    ("AllReduce", "backward"): "behind the sum all ranks compute the same, so each has the "
    "gradient already: the mean of equal ones, or any other message, is for nothing",
}
