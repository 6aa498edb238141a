"""The cases, and the code that runs next to the answer."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch

from coursekit.kit import Rejection
from coursekit.kit.results import RETURNS_NONE

from ..stage.cases import draw


@dataclass(frozen=True)
class Case:
    """A case: the names of the two slices' functions, and the length of their tensors."""

    first: str
    second: str
    length: int = 1

    ranks, is_group, args = (0,), False, ()

    def __str__(self):
        size = f", {self.length} numbers each" if self.length > 1 else ""
        return f"{FIRST[self.first][0]}, {SECOND[self.second][0]}{size}"


def share_hidden(x):
    """Return an output and a key that are both computed from one hidden tensor and x."""
    hidden = torch.tanh(x)
    return 2 * hidden * x, hidden + x**2


FIRST = {  # {name: (in words, the function)}
    "plain": ("y1 = 2 x1 and key = 3 x1", lambda x: (2 * x, 3 * x)),
    "shared": ("y1 and key of one hidden tensor", share_hidden),
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


def make_inputs(case) -> SimpleNamespace:
    """Return the inputs and both outputs' slopes; the first case has those of the example."""
    if case == CASES[0]:
        x1, x2, slope1, slope2 = (torch.tensor([v]).double() for v in (1.0, 5.0, 4.0, 2.0))
    else:
        x1, x2, slope1, slope2 = (draw(seed, case.length) for seed in range(60, 64))
    if case.second == "sum":
        slope2 = slope2[:1]
    return SimpleNamespace(x1=x1, x2=x2, slope1=slope1, slope2=slope2)


def run_both_passes(answer, place, case):
    of, passes = make_inputs(case), []

    def first(x):
        begun = x * 1.0  # its hook runs once per pass through the graph
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
        raise Rejection(
            "second looks at a key that is no leaf of its own",
            "then its graph leads into the graph of the first slice, and both can go back only "
            "together. In a pipeline the second slice goes back first. Keep the line of `seen`",
        )


def need_pair(returned):
    if returned is None:
        raise Rejection("it returned None", RETURNS_NONE)
    is_pair = isinstance(returned, (tuple, list)) and len(returned) == 2
    if not is_pair:
        raise Rejection(
            f"it returned {returned!r:.60}", "asked are two gradients: of x1, and of x2"
        )
