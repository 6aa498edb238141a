"""A product whose gradient of x is summed while that of A is computed.

The answer gets a `begin` that hides the sum until it is waited for; and all products are noted. So
what is demanded of the order of events is seen, not timed.
"""

import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.torch_private import OperatorMode
from ..kit import GROUP, At, Equals, Holds, RankExercise, World, never
from ..kit.both_ways import autograd_function
from ..kit.differences import kind_of
from ..kit.refused import Refused
from ..kit.trials import numbers, turned
from ..kit.values import VIEW
from .pieces import SAME_CALLS

INPUTS, OUTPUTS = 5, 3  # of a rank; no other dims are of these sizes
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mul"}  # that may give A's gradient
ONCE = (
    "only the gradient of x is a sum over the ranks, and it is summed once: each rank has its own "
    "part of A and b, and their gradients are complete"
)
NOT_FLAT = (
    "x may have several dims before the inputs. For the gradient of A all of them are rows: "
    "flatten(0, -2) makes one dim of them, in x and in the gradient; b's is the sum over all rows"
)


def of(leading, has_bias=True, frozen="", world=None):
    """A case: dims of x before the inputs; and which of "x", "A" and "b" needs no gradient."""
    what = ("" if has_bias else ", no b") + (f", {frozen} frozen" if frozen else "")
    return At(world or World(3), (leading, has_bias, frozen), f", x {[*leading, INPUTS]}{what}")


# ---- What is watched ---


def is_like_weight(x) -> bool:
    return isinstance(x, torch.Tensor) and {*x.shape[-2:]} == {INPUTS, OUTPUTS}


class Watch(OperatorMode):
    """Notes in order "begin", "A" where its gradient is computed, and "wait"; other calls, too."""

    def __init__(self, group, leading):
        super().__init__()
        self.group, self.shape, self.events, self.given = group, [*leading, INPUTS], [], None
        self.own = False  # whether what goes on is ours

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        if self.own:
            return out
        if func.namespace in ("c10d", "_c10d_functional"):
            self.events.append("call")
        name = func.overloadpacket.__name__
        of_weight = name == "mul" and any(map(is_like_weight, args))  # A itself times something
        if name in PRODUCTS and is_like_weight(out) and not of_weight:
            self.events.append("A")  # or that of one sample: autograd adds them up
        return out

    def begin(self, x, group=None):
        """As begin_sum; what is in x meanwhile is of no use to anybody."""
        self.refuse(x, group)
        self.events.append("begin")
        self.own, self.given = True, x.detach().clone()
        total = self.given.clone()
        request = dist.all_reduce(total, group=self.group, async_op=True)
        x.detach().fill_(torch.nan)
        self.own = False

        def wait():
            self.own = True
            request.wait()
            if "wait" not in self.events:
                x.detach().copy_(total)
            self.events.append("wait")
            self.own = False

        return wait

    def refuse(self, x, group):
        """Raise `Refused` unless this is the gradient of x, for the first time, and the group."""
        if not isinstance(x, torch.Tensor):
            raise Refused(
                f"begin got {type(x).__name__}", "ctx.begin takes the gradient of x, and the group"
            )
        if "begin" in self.events:
            raise Refused(f"begin is called once more, with {kind_of(x)}", ONCE)
        if list(x.shape) != self.shape:
            raise Refused(
                f"begin got {kind_of(x)}, expected the gradient of x, {self.shape}",
                "what has to be summed is the gradient of x: the gradient of the output, times A. "
                "The output's own gradient belongs to this rank's part of A",
            )
        if group is not self.group:
            raise Refused(
                "begin got another group than forward",
                "forward has kept the group: ctx.begin(…, ctx.group)",
            )


# ---- On a rank ---


def operands(place, case):
    """x, which all have; this rank's weight and bias, and the gradient of its output.

    That is not contiguous.
    """
    leading, has_bias, frozen = case.args
    draw = lambda k, salt, *shape: numbers(k, shape, torch.float64, salt) / 3  # noqa: E731
    bias = draw(place, 2, OUTPUTS) if has_bias else None
    found = [draw(0, 0, *leading, INPUTS), draw(place, 1, OUTPUTS, INPUTS), bias]
    for name, x in zip("xAb", found):
        if x is not None:
            x.requires_grad_(name not in frozen)
    return found, turned(draw(place, 3, *leading, OUTPUTS))


def multiply(answer, group, case):
    """The events of a backward, and the gradients."""
    tensors, slope = operands(dist.get_rank(group), case)
    watch = Watch(group, case.args[0])
    with warnings.catch_warnings():  # x.T of more than 2 dims: it fails afterwards, or is told
        warnings.filterwarnings("ignore", "The use of `x.T`")
        y = autograd_function(answer).apply(*tensors, group, watch.begin)
        with watch:
            (y * slope).sum().backward()
    gradients = taken_from(tensors)
    nans = [name for name, g in gradients.items() if g is not None and g.isnan().any()]
    found = {"nans": nans} | gradients
    if case.args[2] == "x":  # whether it is summed in vain is left to the answer
        return found
    return found | {"events": watch.events, "given": watch.given}


def taken_from(tensors) -> dict:
    """The gradients, which are gone then."""
    found = {name: None if x is None else x.grad for name, x in zip("xAb", tensors)}
    for x in tensors:
        if x is not None:
            x.grad = None
    return found


# ---- What is right, and what is not ---


def through_own(trial, place) -> dict:
    """The gradients through a rank's own part alone."""
    tensors, slope = operands(place, trial.case)
    (F.linear(*tensors) * slope).sum().backward()
    return taken_from(tensors)


def gradient_of(name) -> Equals:
    """That of x is a sum over the ranks, those of A and b are each rank's own."""

    def total(trial):
        every = [through_own(trial, place)[name] for place in range(trial.n)]
        return None if every[0] is None else sum(every)

    def wrong(trial, place):
        own, summed = through_own(trial, place)[name], total(trial)
        if own is None:
            return {}
        if name != "x":
            return {
                f"the gradient of {name} is missing, and it is not frozen": None,
                f"the gradient of {name} is summed over the ranks. {ONCE}": summed,
                f"divided by n; {ONCE}": own / trial.n,
            }
        return {
            "x has no gradient. The sum is in the tensor that begin got, in place: that is what is "
            "returned; the function that waits returns nothing": None,
            "this is the part that comes through this rank's A alone. begin adds up in place: "
            "return the tensor that it got, not another one": own,
            "this is the mean: x is one tensor, the same on all ranks, and its gradient the sum":
                summed / trial.n,
            "the sum is counted n times": trial.n * summed,
        }  # fmt: skip

    def right(trial, place):
        return total(trial) if name == "x" else through_own(trial, place)[name]

    return Equals(name, right, wrong, f"the gradient of {name}")


def positions(events, event) -> list[int]:
    return [number for number, each in enumerate(events) if each == event]


def told(trial) -> str:
    what = {"x": "", "A": "; x's is summed", "A and b": "; x's is summed"}
    travels = "; x's travels while A's is computed"
    return f"the gradients{what.get(trial.case.args[2], travels)}"


EXERCISE = RankExercise(
    "7.19",
    "OverlappedProduct",
    lab="sequence_parallel",
    cases=[
        of((4,)),
        of((2, 4)),
        of((2, 1, 4), has_bias=False),
        of((2,), frozen="A", world=World(2)),
        of((2,), frozen="b"),
        of((2,), frozen="A and b"),
        of((2, 2), frozen="x"),
        of((4,), world=GROUP),
    ],
    work=multiply,
    found=lambda case: [*"xAb", *(["events", "given"] if case.args[2] != "x" else [])],
    facts=[
        Holds("events", lambda events: "begin" in events, "begin is never called",
              lambda trial, place: "something is sent, but not by ctx.begin, which forward has "
              "kept: whoever calls decides how to add up" if "call" in trial[place].events else
              "the gradient of x comes from all ranks' parts of A: it is a sum over the ranks. "
              "ctx.begin(…, ctx.group) begins to add it up"),
        Holds("events", lambda events: "wait" in events, "nobody has waited for the sum",
              "begin returns a function. Until that has been called and has returned, nobody may "
              "count on what is in the gradient of x: wait before backward returns"),
        Holds("events", lambda events: "call" not in events,
              "besides begin there are calls of torch.distributed", ONCE),
        Holds("events", lambda events: events.index("begin") < min(positions(events, "A"),
                                                                   default=len(events)),
              "the gradient of A is computed before the sum begins",
              "nothing overlaps: the sum can begin as soon as the gradient of x is there. That is "
              "computed first, then the sum begins, then comes the gradient of A"),
        Holds("events", lambda events: events.index("wait") > max(positions(events, "A"),
                                                                  default=-1),
              "the sum is waited for before the gradient of A is computed",
              "the numbers may be right, but nothing overlaps: the sum begins, and is waited for "
              "at once. Keep what begin returns, compute the gradient of A, and then call it"),
        never("nans", lambda names: f"the gradient of {names[0]} is nan",
              "nan marks what is on its way: until it is waited for, nobody may compute with the "
              "tensor that begin got"),
        Equals("given", lambda trial, place: through_own(trial, place)["x"],
               called="what begin got",
               otherwise="what begin got is not the gradient of x through this rank's part of A"),
        *map(gradient_of, "xAb"),
    ],
    told=told,
    errors={
        "incorrect number of gradients": "backward returns one gradient for each argument of "
        "forward: those of x, weight and bias, and None for group and begin",
        "invalid gradient at index 0": "what is returned first is the gradient of x, of x's shape: "
        "weight is stored as (outputs, inputs)",
        "invalid gradient at index 1": "what is returned second is the gradient of the weight, and "
        "so of its shape, (outputs, inputs)",
        "invalid gradient at index 2": "what is returned third is the gradient of the bias, one "
        f"number for each output. {NOT_FLAT}",
        "view size is not compatible": VIEW,
        "None at position 3": "b may be None, and then so is its gradient: ctx.has_bias tells",
        "None at position": "group and begin have no gradients: their places have None",
        "object has no attribute 'wait'": "begin returns the function that waits: call it",
        "name 'begin' is not defined": "forward has kept it: ctx.begin",
        "name 'group' is not defined": "forward has kept it: ctx.group",
        "(4x3 and 5x3)": "weight is stored as (outputs, inputs), the gradient of x is (…, inputs)",
        "(4x3 and 4x5)": "A's gradient adds up over all rows, and is (outputs, inputs)",
        **dict.fromkeys(
            ("mat1 and mat2 shapes", "size mismatch", "must match the size", "2 dimensions",
             "2D tensors", "must be a matrix", "Expected size for first two dimensions"), NOT_FLAT),
    },
    lost=SAME_CALLS,
    hints=(
        "There are four things to do: compute the gradient of x, begin its sum, compute those "
        "of A and b, wait. In which order does the sum travel while something is computed?",
        "y = x Aᵀ for A as it is stored, (outputs, inputs): so the gradient of x is gradient @ "
        "weight. gradients_of_layer gives those of weight and bias.",
        "ctx.begin(of_x, ctx.group) returns a function: keep it, and call it at last. The sum "
        "is in of_x then. Return five: of_x, of_weight, of_bias, None, None.",
    ),
)  # fmt: skip
