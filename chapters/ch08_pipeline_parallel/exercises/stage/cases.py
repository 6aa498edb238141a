"""The code that runs next to the answer."""

import weakref
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit.diagnoses import kind_of
from coursekit.kit.results import outcome_of
from pedagogy_lib.basics.closeness import close

FIRST, MIDDLE, LAST = range(3)

LETTERS, CONTEXT, WIDTH, HIDDEN = 7, 3, 4, 5

ORDER = "F7 F2 F4 B2 B7 F5 B4 B5"

STAGES = ", from the first stage to the last: "


def draw(seed, *shape):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def piece_of(place):
    layers = [nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, WIDTH)]
    if place == FIRST:
        layers[0] = nn.Embedding(LETTERS, HIDDEN)
    if place == LAST:
        layers[2] = nn.Linear(HIDDEN, LETTERS)
    piece = nn.Sequential(*layers).double()
    for seed, parameter in enumerate(piece.parameters()):
        parameter.data = draw(seed, *parameter.shape)
    return piece


def make_microbatch(case, place, i) -> SimpleNamespace:
    """Return micro-batch i: its input x, the loss that follows the piece, the output's gradient.

    Its `leaf` is the tensor from which x was computed, if x has a history.
    """
    _, has_history = case.args
    samples = 1 if i == 5 else 2
    x = leaf = draw(10 + i, samples, CONTEXT, WIDTH)
    if place == FIRST:
        x = (x[..., 0] * 100).long() % LETTERS
    elif has_history:
        x = torch.sin(leaf.requires_grad_())
    targets = (draw(50 + i, samples * CONTEXT) * 100).long() % LETTERS
    loss = lambda logits: F.cross_entropy(logits.flatten(0, 1), targets)  # noqa: E731
    gradient = None if place == LAST else draw(90 + i, samples, CONTEXT, WIDTH)
    return SimpleNamespace(i=i, x=x, leaf=leaf, then=[loss] * (place == LAST), gradient=gradient)


class Fault(Exception):
    """An error of a stage, in words."""


def need(holds, what):
    if not holds:
        raise Fault(what)


def stage_at_work(answer, place, case):
    """Run a stage through the case's actions until one is wrong, and return what was found."""
    stage, order = answer(piece_of(place)), case.args[0].split()
    micro = {i: make_microbatch(case, place, i) for i in {int(action[1:]) for action in order}}
    found = {"outputs": {}, "slopes": {}, "most": 0, "fault": ""}

    def go_through():
        for action in order:
            step = forward if action[0] == "F" else backward
            step(stage, action, micro[int(action[1:])], found)
        most = found["most"]
        need(stage.most_kept == most, f"most_kept is {stage.most_kept}, expected {most}")

    outcome = outcome_of(go_through)
    if outcome.error:
        return found | {"fault": outcome.message if outcome.error == "Fault" else str(outcome)}
    return found | {"weights": {name: p.grad for name, p in stage.piece.named_parameters()}}


def forward(stage, action, of, found):
    before, required = of.x.detach().clone(), of.x.requires_grad
    y = stage.forward(of.i, of.x, *of.then)
    found["outputs"][action] = y.detach() if isinstance(y, torch.Tensor) else y
    found["most"] = max(found["most"], len(found["outputs"]) - len(found["slopes"]))
    need(isinstance(y, torch.Tensor), f"{action} gives {y!r:.60}")
    need(not y.requires_grad, f"the output of {action} requires a gradient")
    is_same = of.x.requires_grad == required and torch.equal(of.x.detach(), before)
    need(is_same, f"{action} has changed x")
    need(of.i in stage.kept, f"after {action}, self.kept has nothing of {of.i}")
    kept = stage.kept[of.i]
    is_pair = isinstance(kept, (tuple, list)) and [isinstance(x, torch.Tensor) for x in kept]
    need(is_pair == [True, True], f"self.kept[{of.i}] is {kept!r:.60}, for a pair")
    x, y = kept
    need(close(x.detach().double(), before.double()), f"self.kept[{of.i}][0] is not the input")
    is_loss = y.numel() == 1 or not of.then
    need(is_loss, f"the output in self.kept[{of.i}] is {kind_of(y)}, expected the loss")
    need(y.requires_grad, f"the output in self.kept[{of.i}] has no graph")


def backward(stage, action, of, found):
    x, y = stage.kept.get(of.i, (None, None))
    x, y = x, weakref.ref(y) if isinstance(y, torch.Tensor) else None
    others, runs = {*stage.kept} - {of.i}, []
    before = of.x.detach().clone(), of.gradient if of.gradient is None else of.gradient.clone()
    hook = stage.piece.register_forward_hook(lambda *_: runs.append(action))
    got = stage.backward(of.i, *[of.gradient] * (not of.then))
    hook.remove()
    need(close(of.x.detach().double(), before[0].double()), f"{action} has changed x")
    need(close(of.gradient, before[1]), f"{action} has changed its gradient")
    need(not runs, f"{action} computes the piece once more")
    need(of.leaf.grad is None, f"{action} goes on into what x was computed from")
    need(got is not None or x is None or x.grad is None, f"{action} gives None")
    need(others <= {*stage.kept}, f"{action} takes another micro-batch out of self.kept")
    found["slopes"][action] = got
    need(of.i not in stage.kept, f"after {action}, self.kept still has micro-batch {of.i}")
    need(y is None or y() is None, f"after {action}, its output is still alive")
