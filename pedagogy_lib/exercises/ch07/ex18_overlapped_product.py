"""A product whose gradient of x is summed while that of A is computed: exercise 7.18.

The answer gets a `begin` that hides the sum until it is waited for; and all products are noted. So
what is demanded of the order of events is seen, not timed.
"""

import warnings
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...basics.torch_private import OperatorMode
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.differences import first_difference, kind_of
from ..kit.trials import numbers
from .pieces import SAME_CALLS, explain_in_rank, group_of_rank, need_function, told_groups

INPUTS, OUTPUTS = 5, 3  # of a rank; no other dims are of these sizes


@dataclass(frozen=True)
class Case:
    """What is multiplied.

    leading  dims of x before the inputs
    frozen   those of "x", "A" and "b" that need no gradient
    """

    leading: tuple[int, ...]
    bias: bool = True
    frozen: str = ""
    groups: tuple = ((0, 1, 2),)

    def __str__(self):
        bias = "" if self.bias else ", no b"
        frozen = f", {self.frozen} frozen" if self.frozen else ""
        return f"{told_groups(self.groups)}, x {[*self.leading, INPUTS]}{bias}{frozen}"


CASES = (
    Case((4,)),
    Case((2, 4)),
    Case((2, 1, 4), bias=False),
    Case((2,), frozen="A"),
    Case((2,), frozen="b"),
    Case((2, 2), frozen="x"),
    Case((4,), groups=((0,), (1, 2))),
)


# ---- What is watched -------------------------------------------------------------------------

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mul"}  # that may give A's gradient


def is_like_weight(x) -> bool:
    return isinstance(x, torch.Tensor) and {*x.shape[-2:]} == {INPUTS, OUTPUTS}


class Watch(OperatorMode):
    """Notes in order "begin", "A" where its gradient is computed, and "wait"; other calls, too."""

    def __init__(self, group, case):
        super().__init__()
        self.group, self.case, self.events, self.given = group, case, [], None
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
        """Raise `Wrong` unless this is the gradient of x, for the first time, and the group."""
        shape = [*self.case.leading, INPUTS]
        if not isinstance(x, torch.Tensor):
            raise Wrong(str(self.case), f"begin got {type(x).__name__}", BEGIN)
        if "begin" in self.events:
            raise Wrong(str(self.case), f"begin is called once more, with {kind_of(x)}", ONCE)
        if list(x.shape) != shape:
            what = f"begin got {kind_of(x)}, expected the gradient of x, {shape}"
            raise Wrong(str(self.case), what, WRONG_ONE)
        if group is not self.group:
            raise Wrong(str(self.case), "begin got another group than forward", GROUP_LOST)


BEGIN = "ctx.begin takes the gradient of x, and the group"
ONCE = (
    "only the gradient of x is a sum over the ranks, and it is summed once: each rank has its own "
    "part of A and b, and their gradients are complete"
)
WRONG_ONE = (
    "what has to be summed is the gradient of x: the gradient of the output, times A. The output's "
    "own gradient belongs to this rank's part of A"
)
GROUP_LOST = "forward has kept the group: ctx.begin(…, ctx.group)"


# ---- On a rank -------------------------------------------------------------------------------


def operands(rank, case):
    """x, which all have; this rank's weight and bias, and the gradient of its output."""
    draw = lambda r, shape, salt: numbers(r, shape, torch.float64, salt)  # noqa: E731
    bias = draw(rank, (OUTPUTS,), 2) if case.bias else None
    found = [draw(0, (*case.leading, INPUTS), 0), draw(rank, (OUTPUTS, INPUTS), 1), bias]
    for name, x in zip("xAb", found):
        if x is not None:
            x.requires_grad_(name != case.frozen)
    return found, draw(rank, (*case.leading, OUTPUTS), 3)


def multiply_all(answer) -> list[dict]:
    with warnings.catch_warnings():  # x.T of more than 2 dims: it fails afterwards, or is told
        warnings.filterwarnings("ignore", "The use of `x.T`")
        return [multiply(answer, case) for case in CASES]


def multiply(answer, case) -> dict:
    """The events of a backward, and the gradients."""
    group = group_of_rank(case.groups)
    tensors, slope = operands(dist.get_rank(), case)
    watch = Watch(group, case)
    product = need_function(answer, case)
    y = product.apply(*tensors, group, watch.begin)
    with watch:
        (y * slope).sum().backward()
    gradients = [None if x is None else x.grad for x in tensors]
    return {"events": watch.events, "gradients": gradients, "given": watch.given}


# ---- Judging ---------------------------------------------------------------------------------

NOT_FLAT = (
    "x may have several dims before the inputs. For the gradient of A all of them are rows: "
    "flatten(0, -2) makes one dim of them, in x and in the gradient; b's is the sum over all rows"
)
PRODUCT_ERRORS = {
    "incorrect number of gradients": "backward returns one gradient for each argument of forward: "
    "those of x, weight and bias, and None for group and begin",
    "invalid gradient at index 0": "what is returned first is the gradient of x: gradient @ "
    "weight, as weight is stored as (outputs, inputs)",
    "invalid gradient at index 1": "what is returned second is the gradient of the weight, and so "
    "of its shape, (outputs, inputs)",
    "invalid gradient at index 2": "what is returned third is the gradient of the bias, one number "
    f"for each output. {NOT_FLAT}",
    "None at position 3": "b may be None, and then so is its gradient: ctx.has_bias tells",
    "None at position": "group and begin have no gradients: their places have None",
    "'function' object has no attribute 'wait'": "begin returns the function that waits: call it",
    "'NoneType' object has no attribute 'wait'": "begin returns the function that waits: call it",
    "name 'begin' is not defined": "forward has kept it: ctx.begin",
    "name 'group' is not defined": "forward has kept it: ctx.group",
    "(4x3 and 5x3)": "weight is stored as (outputs, inputs): gradient @ weight is (…, inputs)",
    "(4x3 and 4x5)": "A's gradient adds up over all rows: gradient.T @ x is (outputs, inputs)",
    "mat1 and mat2 shapes": NOT_FLAT,
    "size mismatch": NOT_FLAT,
    "must match the size": NOT_FLAT,
    "2 dimensions": NOT_FLAT,
    "2D tensors": NOT_FLAT,
    "must be a matrix": NOT_FLAT,
    "Expected size for first two dimensions": NOT_FLAT,
}


def examine_product(answer):
    explain = explain_in_rank(PRODUCT_ERRORS, SAME_CALLS)
    world = told_groups(CASES[0].groups)
    run = try_on_ranks(world, multiply_all, answer, world_size=3, explain=explain)
    for number, case in enumerate(CASES):
        of_ranks = [of_rank[number] for of_rank in run.values]
        for members in case.groups:
            for rank in members:
                judge_events(case, rank, of_ranks[rank]["events"])
                judge_gradients(case, rank, members, of_ranks[rank])
        yield f"{case}: the gradients{told_events(case)}"


def told_events(case) -> str:
    if case.frozen == "x":
        return ""  # whether it is summed in vain is left to the answer
    return "; x's is summed" if case.frozen == "A" else "; x's travels while A's is computed"


def judge_events(case, rank, events):
    """Raise `Wrong` unless the sum begins before A's gradient, and is waited for after it."""
    if case.frozen == "x":
        return
    where = f"rank {rank}: "
    if "begin" not in events:
        what = f"{where}begin is never called"
        raise Wrong(str(case), what, BY_ITSELF if "call" in events else NOT_BEGUN)
    if "wait" not in events:
        raise Wrong(str(case), f"{where}nobody has waited for the sum", NOT_WAITED)
    if "call" in events:
        what = f"{where}besides begin there are calls of torch.distributed"
        raise Wrong(str(case), what, ONCE)
    if "A" not in events:
        return
    computed = [number for number, event in enumerate(events) if event == "A"]
    if computed[0] < events.index("begin"):
        what = f"{where}the gradient of A is computed before the sum begins"
        raise Wrong(str(case), what, BEGINS_LATE)
    if events.index("wait") < computed[-1]:
        what = f"{where}the sum is waited for before the gradient of A is computed"
        raise Wrong(str(case), what, WAITS_EARLY)


NOT_BEGUN = (
    "the gradient of x comes from all ranks' parts of A: it is a sum over the ranks. "
    "ctx.begin(…, ctx.group) begins to add it up"
)
BY_ITSELF = (
    "something is sent, but not by ctx.begin, which forward has kept: whoever calls decides how to "
    "add up"
)
NOT_WAITED = (
    "begin returns a function. Until that has been called and has returned, nobody may count on "
    "what is in the gradient of x: wait before backward returns"
)
BEGINS_LATE = (
    "nothing overlaps: the sum can begin as soon as the gradient of x is there. That is computed "
    "first, then the sum begins, then comes the gradient of A"
)
WAITS_EARLY = (
    "the numbers may be right, but nothing overlaps: the sum begins, and is waited for at once. "
    "Keep what begin returns, compute the gradient of A, and then call it"
)


def judge_gradients(case, rank, members, of):
    every = {member: alone(member, case) for member in members}
    for index, name in enumerate(("x", "A", "b")):
        own = every[rank][index]
        total = own if own is None else sum(every[member][index] for member in members)
        wanted, got = total if name == "x" else own, of["gradients"][index]
        if not close(got, wanted):
            what = f"rank {rank}, the gradient of {name} {first_difference(got, wanted)}"
            why = why_gradient(name, got, own, total, len(members), of["given"])
            raise Wrong(str(case), what, why)


def alone(rank, case) -> list:
    """The gradients that autograd finds through one rank's part of A alone."""
    tensors, slope = operands(rank, case)
    needed = [x for x in tensors if x is not None and x.requires_grad]
    found = iter(torch.autograd.grad((F.linear(*tensors) * slope).sum(), needed))
    return [next(found) if x is not None and x.requires_grad else None for x in tensors]


def why_gradient(name, got, own, total, n, given) -> str:
    if got is None:
        return NO_X if name == "x" else f"the gradient of {name} is missing, and it is not frozen"
    if got.isnan().any():
        return NAN
    if name == "x":
        guesses = {
            OTHER_TENSOR: own,
            "this is the mean: x is one tensor, the same on all ranks, and its gradient the sum":
                total / n,
            "the sum is counted n times": n * total,
        }  # fmt: skip
        if not close(given, own):
            return "what begin got is not the gradient of x through this rank's part of A: " \
                "gradient @ weight"  # fmt: skip
    else:
        guesses = {
            f"the gradient of {name} is summed over the ranks. {ONCE}": total,
            f"divided by n; {ONCE}": own / n,
        }
    return next((why for why, guess in guesses.items() if close(got, guess)), "")


NO_X = (
    "x has no gradient. The sum is in the tensor that begin got, in place: that is what is "
    "returned; the function that waits returns nothing"
)
NAN = (
    "nan marks what is on its way: until it is waited for, nobody may compute with the tensor that "
    "begin got"
)
OTHER_TENSOR = (
    "this is the part that comes through this rank's A alone. begin adds up in place: return the "
    "tensor that it got, not another one"
)


EXERCISE = Exercise(
    "7.18", "OverlappedProduct", examine_product,
    (
        "There are four things to do: compute the gradient of x, begin its sum, compute those "
        "of A and b, wait. In which order does the sum travel while something is computed?",
        "y = x Aᵀ for A as it is stored, (outputs, inputs): so the gradient of x is gradient @ "
        "weight. gradients_of_layer gives those of weight and bias.",
        "ctx.begin(of_x, ctx.group) returns a function: keep it, and call it at last. The sum "
        "is in of_x then. Return five: of_x, of_weight, of_bias, None, None.",
    ),
    lab="sequence_parallel",
)  # fmt: skip
