"""One stage of a pipeline: the first, one in the middle and the last, as on ranks 0, 1 and 2.

What comes from other ranks, and goes to them, are plain tensors: one process is enough. The truth
is the piece by itself.
"""

import weakref
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ..kit import At, Equals, World, never
from ..kit.differences import kind_of
from ..kit.in_this_process import InThisProcess
from ..kit.outcomes import NO_RETURN, outcome_of

FIRST, MIDDLE, LAST = range(3)
LETTERS, CONTEXT, WIDTH, HIDDEN = 7, 3, 4, 5
ORDER = "F7 F2 F4 B2 B7 F5 B4 B5"
STAGES = ", from the first stage to the last: "
KEPT_PAIR = "self.kept[i] is the pair (input, output), which self.keep puts there"
WHY = {  # words of what is wrong, or of an exception: what they mean
    "requires a gradient":
        "what is returned still has its graph. It is sent to another rank, where no graph can "
        "follow: keep y as it is, and return the same numbers without a graph",
    "has changed x":
        "x belongs to the caller, and x.requires_grad_() changes it: x.detach() is a tensor of "
        "your own, with the same memory",
    "has nothing of": "self.keep keeps a micro-batch for its backward, and counts",
    "for a pair": KEPT_PAIR,
    "is not the input": KEPT_PAIR,
    "expected the loss":
        "what is kept is the output before `then`. On the last stage the backward begins at the "
        "loss: keep what `then` has made of the output",
    "has no graph":
        "y.detach() is for the next rank. What is kept is y itself: the graph that leads to it is "
        "what the backward goes through",
    "goes on into":
        "the graph goes on behind this rank's input, into operations of somebody else. It is to "
        "begin at x: x.detach() is the same numbers, without what was before",
    "gives None": NO_RETURN,
    "another micro-batch":
        "backwards come in any order: look up what was kept under i, not the oldest or the newest",
    "still has":
        "after its backward nobody needs a micro-batch: self.kept.pop(i) gives it back and "
        "forgets it. Else its activations stay, and memory grows with every micro-batch",
    "has changed its gradient":
        "the gradient of the output belongs to the caller: look at it, and leave it as it is",
    "computes the piece": "the forward has computed the piece already, and kept its output with "
        "the graph. The backward goes through that",
    "is still alive": "after its backward nobody needs the output, nor its graph. Somebody besides "
        "self.kept still holds it: memory grows with every micro-batch",
    "most_kept is": "self.keep notes how many are kept: call it once for each forward",
    "floating point": "tokens are whole numbers, which have no gradient: "
        "x.requires_grad_(x.is_floating_point())",
    "scalar types: Long": "tokens are to stay whole numbers: the embedding looks them up",
    "implicitly created only for scalar":
        "backward() alone is for a loss, which is one number. Other outputs come with their "
        "gradient from the next stage",
    "does not have a grad_fn": "y.detach() is for the next rank. What is kept is y itself",
    "second time": "a graph can be gone through once: one backward for each micro-batch, and no "
        "operation that two of them share",
    "and 'NoneType'": "on the last stage gradient is None: the output is the loss, and "
        "y.backward(None) takes that",
    "'NoneType' object": "on the last stage gradient is None; and x.grad is None for tokens",
    "KeyError": "what the forward has kept under i, the backward finds there: self.keep does it",
    "to unpack": KEPT_PAIR,
    "Mismatch in shape": "the gradient is that of the output, and of the same micro-batch: look up "
        "what was kept under i",
}  # fmt: skip


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


def given(case, place, i) -> SimpleNamespace:
    """Micro-batch i: its input x, what follows the piece, the gradient of the output.

    leaf  what x was computed from, if it has a history
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


# ---- A stage at work ---


class Fault(Exception):
    """What is wrong with a stage, in words."""


def need(holds, what):
    if not holds:
        raise Fault(what)


def stage_at_work(answer, place, case):
    """A stage does what the case says, until something is wrong."""
    stage, order = answer(piece_of(place)), case.args[0].split()
    micro = {i: given(case, place, i) for i in {int(action[1:]) for action in order}}
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


# ---- What is right, and what is not ---


class Pass:
    """A plain pass of what a micro-batch is given."""

    def __init__(self, case, place, i):
        self.of, self.piece = given(case, place, i), piece_of(place)
        self.x = self.of.x.detach().clone()
        self.leaves = dict(self.piece.named_parameters())
        if self.x.is_floating_point():
            self.leaves["x"] = self.x.requires_grad_()
        self.raw = self.piece(self.x)
        self.y = self.of.then[0](self.raw) if self.of.then else self.raw

    def slopes(self, gradient) -> dict:
        """Those of the weights, and of x unless it is tokens, from that of the output."""
        of_all = torch.autograd.grad(self.y, self.leaves.values(), gradient, retain_graph=True)
        return dict(zip(self.leaves, of_all))


def each(trial, place, name, value) -> dict:
    """{action: value(a plain pass)} of those that the stage has done: all, if nothing is wrong."""
    kind = "F" if name == "outputs" else "B"
    done = [action for action in trial.case.args[0].split() if action[0] == kind]
    if trial[place].fault:
        done = getattr(trial[place], name)
    return {action: value(Pass(trial.case, place, int(action[1:]))) for action in done}


def slope_mistakes(trial, place):
    return {why: each(trial, place, "slopes", value) for why, value in {
        "x has no gradient: autograd notes one for a tensor that requires it, and that is a leaf, "
        "before the piece computes": lambda p: None,
        "this is x; asked is its gradient, x.grad": lambda p: p.x.detach(),
        "this is the gradient of the output; through the piece it becomes that of the input":
            lambda p: p.of.gradient,
        "this is as if the gradient of each output were 1, as in y.sum().backward(). How the loss "
        "depends on them the next stage knows, and has sent":
            lambda p: p.slopes(torch.ones_like(p.y)).get("x"),
    }.items()}  # fmt: skip


def weights_of(trial, place, gradient=lambda p: p.of.gradient, combine=sum):
    """The gradients of the weights, of all backwards that were done."""
    parts = each(trial, place, "slopes", lambda p: p.slopes(gradient(p))).values()
    return {name: combine([of[name] for of in parts]) for name in names_of(place)}


def names_of(place) -> list[str]:
    return [name for name, _ in piece_of(place).named_parameters()]


def weight_mistakes(trial, place):
    return {
        "the weights get no gradient: backward() adds to theirs, autograd.grad gives x's alone":
            dict.fromkeys(names_of(place)),
        "these are the gradients of the last micro-batch alone. The gradients of a batch are the "
        "sum over its micro-batches: backward() adds, and nothing is to be cleared":
            weights_of(trial, place, combine=lambda parts: parts[-1]),
        "each gradient is added twice: one backward for each micro-batch":
            weights_of(trial, place, combine=lambda parts: 2 * sum(parts)),
        "the weights have gradients as if that of each output were 1, as in y.sum().backward(). "
        "The next stage has sent the right one":
            weights_of(trial, place, lambda p: torch.ones_like(p.y)),
    }  # fmt: skip


def why_at_fault(trial, place) -> str:
    return next((why for words, why in WHY.items() if words in trial[place].fault), "")


EXERCISE = InThisProcess(
    "8.6",
    "Stage",
    lab="pipeline_parallel",
    cases=[
        At(World(3), ("F0 B0", False), f"{STAGES}F0 B0"),
        At(World(3), (ORDER, False), f"{STAGES}{ORDER}"),
        At(World(3), ("F0 B0", True), f"{STAGES}F0 B0 of an x that has a history"),
    ],
    work=stage_at_work,
    facts=[
        Equals("outputs", lambda *at: each(*at, "outputs", lambda p: p.y.detach()),
               lambda *at: {
                   "on the last stage `then` makes the loss of what the piece returns":
                       each(*at, "outputs", lambda p: p.raw.detach()),
                   "this is x: self.piece(x) is to follow":
                       each(*at, "outputs", lambda p: p.x.detach()),
               }, "the output"),
        Equals("slopes", lambda *at: each(*at, "slopes", lambda p: p.slopes(p.of.gradient).get(
               "x")), slope_mistakes, "the gradient of x"),
        Equals("weights", weights_of, weight_mistakes, "after all backwards, the gradient"),
        never("fault", str, why_at_fault),
    ],
    told=lambda trial: f"outputs and gradients are right, kept at most {trial[0].most}",
    hints=(
        "Another rank has computed x, and its graph is there. What has x to be, so that a "
        "backward on this rank ends at it, and leaves a gradient there?",
        "x.detach() has no history, and requires_grad_() has its gradient noted. Letters have "
        "none: x.detach().requires_grad_(x.is_floating_point()).",
        "Then the piece computes, and `then` follows it. The result goes two ways: self.keep "
        "gets it with its graph, for the backward; the next stage gets it without.",
        "backward: x, y = self.kept.pop(i). y.backward(gradient) adds to the weights' "
        "gradients and leaves x.grad; of the loss gradient is None, which backward() takes.",
    ),
)  # fmt: skip
