"""Two slices, and a key of the first one that the second one looks at.

What the truth is: both slices in one graph, without a leaf between them, gone through once.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import torch

from ..kit import Equals, Refused, never
from ..kit.in_this_process import InThisProcess
from ..kit.outcomes import NO_RETURN
from .ex06_stage import draw


@dataclass(frozen=True)
class Case:
    """Names of what the two slices do, and the length of their tensors."""

    first: str
    second: str
    length: int = 1

    ranks, is_group, args = (0,), False, ()

    def __str__(self):
        size = f", {self.length} numbers each" if self.length > 1 else ""
        return f"{FIRST[self.first][0]}, {SECOND[self.second][0]}{size}"


def shared(x):
    """An output and a key that share more than x."""
    hidden = torch.tanh(x)
    return 2 * hidden * x, hidden + x**2


FIRST = {  # name: in words, the function
    "plain": ("y1 = 2 x1 and key = 3 x1", lambda x: (2 * x, 3 * x)),
    "shared": ("y1 and key of one hidden tensor", shared),
    "apart": ("y1 = x1² and key = -x1", lambda x: (x**2, -x)),
}
SECOND = {
    "product": ("y2 = x2 · key", lambda x, key: x * key),
    "mixed": ("y2 = sin(x2) · key²", lambda x, key: x.sin() * key**2),
    "sum": ("y2 a sum over all keys", lambda x, key: (x * key).sum().reshape(1)),
}
CASES = [
    Case("plain", "product"),
    Case("apart", "mixed"),
    Case("shared", "product", 4),
    Case("shared", "mixed", 3),
    Case("apart", "sum", 5),
]


def given(case) -> SimpleNamespace:
    """The inputs, and the slopes of both outputs; of the first case those of the example."""
    if case == CASES[0]:
        x1, x2, slope1, slope2 = (torch.tensor([v]).double() for v in (1.0, 5.0, 4.0, 2.0))
    else:
        x1, x2, slope1, slope2 = (draw(seed, case.length) for seed in range(60, 64))
    if case.second == "sum":
        slope2 = slope2[:1]
    return SimpleNamespace(x1=x1, x2=x2, slope1=slope1, slope2=slope2)


LISTS = (
    "torch.autograd.backward takes a list of outputs, and then a list of their gradients: "
    "([a, b], [gradient of a, gradient of b])"
)

# ---- The answer at work ---------------------------------------------------------------------


def at_work(answer, place, case):
    of, passes = given(case), []

    def first(x):
        begun = x * 1.0  # once in each pass through the graph
        if begun.requires_grad:
            begun.register_hook(lambda gradient: passes.append("first"))
        y, key = FIRST[case.first][1](begun)
        first.key = key
        return y, key

    def second(x, seen):
        need_leaf(seen)
        return SECOND[case.second][1](x, seen)

    inputs = of.x1, of.x2, of.slope1, of.slope2
    given_before = [x.clone() for x in inputs]
    returned = answer(first, second, of.x1, of.x2, of.slope1, of.slope2)
    need_pair(returned)
    changed = any(x.requires_grad or not torch.equal(x, y) for x, y in zip(inputs, given_before))
    return {"gradients": dict(zip(("x1", "x2"), returned)), "changed": changed,
            "passes": len(passes) if len(passes) > 1 else 0}  # fmt: skip


def need_leaf(seen):
    if not (seen.is_leaf and seen.requires_grad):
        raise Refused(
            "second looks at a key that is no leaf of its own",
            "then its graph leads into the graph of the first slice, and both can go back only "
            "together. In a pipeline the second slice goes back first. Keep the line of `seen`",
        )


def need_pair(returned):
    if returned is None:
        raise Refused("it returned None", NO_RETURN)
    is_pair = isinstance(returned, (tuple, list)) and len(returned) == 2
    if not is_pair:
        raise Refused(f"it returned {returned!r:.60}", "asked are two gradients: of x1, and of x2")


# ---- What is right, and what is not ---------------------------------------------------------


class Parts:
    """Both slices in one graph: what x1 and x2 get of any gradients of y1, the key, and y2."""

    def __init__(self, case):
        self.of = given(case)
        self.x1, self.x2 = (x.clone().requires_grad_() for x in (self.of.x1, self.of.x2))
        self.y1, self.made = FIRST[case.first][1](self.x1)
        self.y2 = SECOND[case.second][1](self.x2, self.made)

    def output(self, gradient):
        return self.grad(self.y1, self.x1, gradient)

    def key(self, gradient):
        return self.grad(self.made, self.x1, gradient)

    def second(self, gradient):
        """What arrives at the key, and at x2."""
        return self.grad(self.y2, self.made, gradient), self.grad(self.y2, self.x2, gradient)

    def grad(self, y, x, gradient):
        like = gradient if gradient.shape == y.shape else gradient.sum().expand(y.shape)
        return torch.autograd.grad(y, [x], like, retain_graph=True)[0]


def truth(trial, place):
    at = Parts(trial.case)
    total = (at.y1 * at.of.slope1).sum() + (at.y2 * at.of.slope2).sum()
    return dict(zip(("x1", "x2"), torch.autograd.grad(total, [at.x1, at.x2])))


def mistakes(trial, place):
    at = Parts(trial.case)
    slope1, slope2 = at.of.slope1, at.of.slope2
    output, (arrived, of_x2) = at.output(slope1), at.second(slope2)
    ones, through = torch.ones_like(slope1), at.key(arrived)
    of_ones, of_slope1 = at.second(torch.ones_like(slope2)), at.second(slope1)

    def pair(x1, x2=of_x2):
        return {"x1": x1, "x2": x2}

    not_its_slope = (
        "the key goes back with the slope of an output. What arrived at the key is in seen.grad"
    )
    no_slopes = (
        "an output goes back with a gradient of 1, as in y.sum().backward(). How the loss depends "
        "on it the next stage has sent: slope1 for y1, slope2 for y2"
    )
    return {
        "x1 has the gradient through its output alone. The second slice has looked at the key, and "
        "what it has left in seen.grad has to go on from `key` to x1": pair(output),
        "x1 has the gradient through its key alone: its output y1 goes back as well":
            pair(through),
        "the output of the first slice goes back twice: y1 is one of two outputs of one backward":
            pair(2 * output + through),
        "what comes through the key is there twice: the second slice has sent it once":
            pair(output + 2 * through),
        "the key goes back with a gradient of 1. What arrived at it is in seen.grad, once the "
        "second slice has gone back: that one comes first": pair(output + at.key(ones)),
        not_its_slope: pair(output + at.key(slope1)),
        f"{not_its_slope}, not in slope2": pair(output + at.key(slope2)),
        "the key goes back with x2.grad. What arrived at the key is in seen.grad":
            pair(output + at.key(of_x2)),
        "what arrived at the key is added as it is. It has to go back through `first`, from `key` "
        "to x1": pair(output + arrived),
        "what arrived at the key goes back from y1. It belongs to `key`, the other output":
            pair(output + at.output(arrived)),
        no_slopes: pair(at.output(ones) + through),
        f"{no_slopes}. Here it is y2": pair(output + at.key(of_ones[0]), of_ones[1]),
        f"{no_slopes}. Here it is both": pair(at.output(ones) + at.key(of_ones[0]), of_ones[1]),
        "the slopes are swapped: slope1 belongs to y1, slope2 to y2":
            pair(at.output(slope2) + at.key(of_slope1[0]), of_slope1[1]),
        "the two are swapped: first the gradient of x1": pair(of_x2, output + through),
        "seen.grad is the gradient of the key; asked is that of x2, in x2.grad":
            pair(output + through, arrived),
        "this is the gradient of the key. It goes on from `key` to x1": pair(arrived),
        "these are the inputs; asked are their gradients, x1.grad and x2.grad":
            pair(at.of.x1, at.of.x2),
    }  # fmt: skip


EXERCISE = InThisProcess(
    "8.17",
    "back_through_both",
    cases=CASES,
    work=at_work,
    facts=[
        Equals("gradients", truth, mistakes, "the gradient"),
        never("changed", "an input has changed",
              "x1, x2 and the slopes belong to the caller: work with the leaves of the first line"),
        never("passes", "the numbers are right, but the graph of the first slice is gone through "
              "{} times",
              "y1 and key go back together: one torch.autograd.backward takes a list of outputs, "
              "and a list of their gradients, and needs no retain_graph"),
    ],
    told="both gradients are those of one graph",
    errors={
        "a second time": "y1 and key share a graph, and that is gone after the first backward. One "
        "torch.autograd.backward takes both outputs in a list, and their gradients in another",
        "implicitly created only for scalar": "an output that is more than one number goes back "
        "with its gradient. If that is seen.grad, it is None until the second slice has gone back: "
        "the second slice comes first",
        "Mismatch in shape": "each output has a gradient of its own shape: y1 has slope1, the key "
        "has what arrived at `seen`, y2 has slope2",
        "'NoneType' object": "seen.grad is None until the second slice has gone back, and "
        "backward() returns None: gradients are left in the leaves",
        "does not require grad": "only what was computed from a leaf can go back: `key` has a "
        "graph; `seen` is where a gradient ends",
        "only integer tensors": LISTS,
        "Expected output to be": LISTS,
        "takes as many": "torch.autograd.backward takes as many gradients as outputs",
        "number of tensors": "torch.autograd.backward takes as many gradients as outputs",
        "got 2 tensors and": "torch.autograd.backward takes as many gradients as outputs",
    },
    hints=(
        "Which slice goes back first, and where does its backward end?",
        "y2.backward(slope2) leaves gradients in x2.grad and in seen.grad. The second one belongs "
        "to the key of the first slice.",
        "The first slice has two outputs, y1 and key, with the gradients slope1 and seen.grad. "
        "Both go into one torch.autograd.backward.",
    ),
)  # fmt: skip
