"""One stage of a pipeline: exercise 8.6. The truth is the piece of the model by itself.

One process is enough: what comes from other ranks, and goes to them, are plain tensors.
"""

import copy
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong
from ...ranks.call_stack import is_library
from ..kit.differences import recognise
from ..kit.outcomes import NO_RETURN, outcome_of
from ..kit.trials import kind_of

LETTERS, CONTEXT, WIDTH, HIDDEN = 7, 3, 4, 5


@dataclass(frozen=True)
class Case:
    """What a stage is asked to do.

    place    "first", "middle" or "last": where in the model it is
    order    F2 B2: forward and backward of micro-batch 2
    history  whether x comes with operations of somebody else behind it
    """

    title: str
    place: str
    order: str
    history: bool = False

    def __str__(self):
        return f"{self.title}, {self.order}"


CASES = [
    Case("a stage in the middle", "middle", "F0 B0"),
    Case("the first stage, which gets letters", "first", "F0 B0"),
    Case("the last stage, whose output is the loss", "last", "F0 B0"),
    Case("three micro-batches under way", "middle", "F7 F2 F4 B2 B7 F5 B4 B5"),
    Case("two at a time, with the loss", "last", "F0 F1 B0 F2 B1 B2"),
    Case("an x that has a history", "middle", "F0 B0", history=True),
]
STRANGERS = (
    "the graph goes on behind this rank's input, into operations of somebody else. It is to begin "
    "at x: x.detach() is the same numbers, without what was before"
)
CALLERS = (
    "x belongs to the caller, and x.requires_grad_() changes it: x.detach() is a tensor of your "
    "own, with the same memory"
)
LEAVES = (
    "what is returned still has its graph. It is sent to another rank, where no graph can follow: "
    "keep y, and return y.detach()"
)
NO_THEN = "on the last stage the loss follows the piece: y = then(self.piece(x))"
THEN_ALONE = "`then` follows the piece: then(self.piece(x))"
NOT_KEPT = "self.keep(i, x, y) keeps a micro-batch for its backward, and counts"
KEPT_PAIR = "self.kept[i] is the pair (input, output): self.keep(i, x, y)"
NO_GRAPH_KEPT = (
    "y.detach() is for the next rank. What is kept is y itself: the graph that leads to it is what "
    "the backward goes through"
)
BEFORE_THEN = (
    "what is kept is the output before `then`. On the last stage the backward begins at the loss: "
    "y = then(self.piece(x)), and keep that y"
)
NOT_POPPED = (
    "after its backward nobody needs a micro-batch: self.kept.pop(i) gives it back and forgets it. "
    "Else its activations stay, and memory grows with every micro-batch"
)
NOT_COUNTED = "self.keep notes how many are kept: call it once for each forward"
NO_GRADIENT = (
    "x has no gradient: autograd notes one for a tensor that requires it, and that is a leaf: "
    "x.detach().requires_grad_(), before the piece computes"
)
X_ITSELF = "this is x; asked is its gradient, x.grad"
PASSED_ON = "this is the gradient of the output; through the piece it becomes that of the input"
ONES = (
    "this is as if the gradient of each output were 1, as in y.sum().backward(). How the loss "
    "depends on them the next stage knows, and has sent: y.backward(gradient)"
)
CLEARED = (
    "these are the gradients of the last micro-batch alone. The gradients of a batch are the sum "
    "over its micro-batches: backward() adds, and nothing is to be cleared"
)
NO_WEIGHTS = "the weights get no gradient: backward() adds to theirs, autograd.grad gives x's alone"
TWICE = "each gradient is added twice: one backward for each micro-batch"
ANOTHER = "this is the gradient of another micro-batch: look up what was kept under i"
SCALAR = (
    "backward() alone is for a loss, which is one number. Other outputs come with their gradient "
    "from the next stage: y.backward(gradient)"
)
ERRORS = {
    "floating point": "letters are whole numbers, which have no gradient: "
    "x.requires_grad_(x.is_floating_point())",
    "scalar types: Long": "letters are to stay whole numbers: the embedding looks them up",
    "implicitly created only for scalar": SCALAR,
    "does not have a grad_fn": NO_GRAPH_KEPT,
    "second time": "a graph can be gone through once: one backward for each micro-batch, and no "
    "operation that two of them share",
    "and 'NoneType'": "on the last stage gradient is None: the output is the loss, and "
    "y.backward(None) takes that",
    "'NoneType' object": "on the last stage gradient is None; and x.grad is None for letters",
    "KeyError": "what the forward has kept under i, the backward finds there: self.keep(i, x, y)",
    "to unpack": KEPT_PAIR,
    "Mismatch in shape": "the gradient is that of the output; the one of the input is computed",
}


# ---- What goes in, and what should come out ----------------------------------------------------


def draw(seed, *shape):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=source, dtype=torch.float64)


def piece_of(place):
    layers = [nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, WIDTH)]
    if place == "first":
        layers[0] = nn.Embedding(LETTERS, HIDDEN)
    if place == "last":
        layers[2] = nn.Linear(HIDDEN, LETTERS)
    piece = nn.Sequential(*layers).double()
    for seed, parameter in enumerate(piece.parameters()):
        parameter.data = draw(seed, *parameter.shape)
    return piece


def given(case, i) -> SimpleNamespace:
    """Micro-batch i: its input x, what follows the piece, the gradient of the output.

    leaf  what x was computed from, if it has a history
    """
    samples = 1 + i % 3
    x = leaf = draw(10 + i, samples, CONTEXT, WIDTH)
    if case.place == "first":
        x = (x[..., 0] * 100).long() % LETTERS
    if case.history:
        x = torch.sin(leaf.requires_grad_())
    targets = (draw(50 + i, samples * CONTEXT) * 100).long() % LETTERS
    loss = lambda scores: F.cross_entropy(scores.flatten(0, 1), targets)  # noqa: E731
    is_last = case.place == "last"
    return SimpleNamespace(
        x=x, leaf=leaf, then=[loss] if is_last else [],
        gradient=None if is_last else draw(90 + i, samples, CONTEXT, WIDTH),
    )  # fmt: skip


def truth(piece, of, gradient="given") -> SimpleNamespace:
    """Output and gradients of one micro-batch, of a plain pass: x's is None for letters.

    gradient  of the output: the given one, or another
    """
    gradient = of.gradient if isinstance(gradient, str) else gradient
    x = of.x.detach().clone()
    leaves = [*piece.parameters()]
    if x.is_floating_point():
        leaves.append(x.requires_grad_())
    raw = piece(x)
    y = of.then[0](raw) if of.then else raw
    total = y if gradient is None else (y * gradient).sum()
    slopes = torch.autograd.grad(total, leaves)
    weights = slopes[: len(leaves) - x.requires_grad]
    of_x = slopes[-1] if x.requires_grad else None
    return SimpleNamespace(y=y.detach(), raw=raw.detach(), x=of_x, weights=weights)


def told_error(outcome) -> str:
    """What was raised, and the learner's line; PyTorch's own lines say nothing."""
    what = f"it raised {outcome.error}: {outcome.message}"
    is_known = outcome.place is not None and not is_library(outcome.place.filename)
    return f"{what}\n  at {outcome.place}" if is_known else what


# ---- Trying a stage ----------------------------------------------------------------------------


class Trial:
    """A stage at work, beside what it should come to.

    sums  the gradients of the weights, of all backwards so far
    """

    def __init__(self, case, answer):
        self.case, self.piece = case, piece_of(case.place)
        self.alone = copy.deepcopy(self.piece)
        self.stage = self.call(answer, self.piece)
        self.micro, self.truths, self.last = {}, {}, None
        self.under_way, self.most = set(), 0
        self.sums = [torch.zeros_like(p) for p in self.alone.parameters()]

    def call(self, function, *args):
        outcome = outcome_of(function, *args)
        if outcome.error:
            text = f"{outcome.error}: {outcome.message}"
            why = next((why for words, why in ERRORS.items() if words in text), "")
            raise Wrong(str(self.case), told_error(outcome), why)
        return outcome.value

    def wrong(self, what, why):
        raise Wrong(str(self.case), what, why)

    def forward(self, i):
        of = self.micro[i] = given(self.case, i)
        right = self.truths[i] = truth(self.alone, of)
        before, required = of.x.detach().clone(), of.x.requires_grad
        y = self.call(self.stage.forward, i, of.x, *of.then)
        self.under_way.add(i)
        self.most = max(self.most, len(self.under_way))
        judge_output(self, i, y, right)
        if of.x.requires_grad != required or not torch.equal(of.x.detach(), before):
            self.wrong(f"forward({i}, x) has changed x", CALLERS)
        judge_kept(self, i)

    def backward(self, i):
        of, right = self.micro[i], self.truths[i]
        arguments = [] if of.gradient is None else [of.gradient]
        got = self.call(self.stage.backward, i, *arguments)
        self.under_way.discard(i)
        self.last = right
        self.sums = [total + more for total, more in zip(self.sums, right.weights)]
        if self.case.history and of.leaf.grad is not None:
            self.wrong(f"backward({i}) goes on into what x was computed from", STRANGERS)
        judge_input_gradient(self, i, got)
        judge_weights(self, i)
        if i in self.stage.kept:
            self.wrong(f"after backward({i}), self.kept has {sorted(self.stage.kept)}", NOT_POPPED)


def examine_stage(answer):
    for case in CASES:
        trial = Trial(case, answer)
        for action in case.order.split():
            step = trial.forward if action[0] == "F" else trial.backward
            step(int(action[1:]))
        if trial.stage.most_kept != trial.most:
            what = f"most_kept is {trial.stage.most_kept}, expected {trial.most}"
            trial.wrong(what, NOT_COUNTED)
        yield f"{case}: outputs and gradients are right, kept at most {trial.most}"


def judge_output(trial, i, y, right):
    if not isinstance(y, torch.Tensor):
        why = NO_RETURN if y is None else "asked is one tensor, to be sent"
        trial.wrong(f"forward({i}, x) gave {y!r:.60}", why)
    if not close(y.detach(), right.y):
        off = told_gap(y, right.y) if y.shape == right.y.shape else ""
        what = f"off by up to {off}" if off else f"{kind_of(y)}, expected {kind_of(right.y)}"
        guesses = {NO_THEN if trial.case.place == "last" else THEN_ALONE: right.raw,
                   "this is x: self.piece(x) is to follow": trial.micro[i].x}  # fmt: skip
        trial.wrong(f"forward({i}, x): the output is {what}", recognise(y.detach(), guesses))
    if y.requires_grad:
        trial.wrong(f"forward({i}, x): the output requires a gradient", LEAVES)


def judge_kept(trial, i):
    kept = trial.stage.kept
    if i not in kept:
        trial.wrong(f"after forward({i}, x), self.kept has {sorted(kept)}", NOT_KEPT)
    pair, x = kept[i], trial.micro[i].x
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    if not is_pair or not all(isinstance(of, torch.Tensor) for of in pair):
        trial.wrong(f"self.kept[{i}] is {pair!r:.60}", KEPT_PAIR)
    if not close(pair[0].detach().double(), x.detach().double()):
        trial.wrong(f"the first in self.kept[{i}] is not the input", KEPT_PAIR)
    if trial.case.place == "last" and pair[1].numel() > 1:
        what = f"the output in self.kept[{i}] is {kind_of(pair[1])}, expected the loss"
        trial.wrong(what, BEFORE_THEN)
    if not pair[1].requires_grad:
        trial.wrong(f"the output in self.kept[{i}] has no graph", NO_GRAPH_KEPT)


def judge_input_gradient(trial, i, got):
    of, wanted = trial.micro[i], trial.truths[i].x
    if wanted is None and got is None:
        return
    who = f"backward({i}): the gradient of x"
    if wanted is None or not isinstance(got, torch.Tensor):
        expected = "None, for letters" if wanted is None else kind_of(wanted)
        why = NO_GRADIENT if got is None else ""
        trial.wrong(f"{who} is {got!r:.60}, expected {expected}", why)
    if close(got, wanted):
        return
    others = [right.x for k, right in trial.truths.items() if k != i]
    guesses = [(X_ITSELF, of.x), (PASSED_ON, of.gradient), (ONES, ones_gradient(trial, of))]
    guesses += [(ANOTHER, other) for other in others]
    off = told_gap(got, wanted) if got.shape == wanted.shape else kind_of(got)
    trial.wrong(f"{who} is off by up to {off}", fitting(got, guesses))


def ones_gradient(trial, of):
    """The gradient of x for the sum of the outputs."""
    return truth(trial.alone, of, torch.ones(())).x


def fitting(got, guesses) -> str:
    return next((why for why, wrong in guesses if wrong is not None and close(got, wrong)), "")


def judge_weights(trial, i):
    named = list(trial.piece.named_parameters())
    for number, ((name, parameter), wanted) in enumerate(zip(named, trial.sums)):
        got = parameter.grad
        if got is not None and close(got, wanted):
            continue
        what = f"after backward({i}) the gradient of {name}"
        if got is None:
            trial.wrong(f"{what} is None", NO_WEIGHTS)
        guesses = [(CLEARED, trial.last.weights[number]), (TWICE, 2 * wanted)]
        if trial.case.place != "last":
            ones = truth(trial.alone, trial.micro[i], torch.ones(())).weights[number]
            guesses += [(ONES, wanted - trial.last.weights[number] + ones)]
        off = told_gap(got, wanted) if got.shape == wanted.shape else kind_of(got)
        trial.wrong(f"{what} is off by up to {off}", fitting(got, guesses))


EXERCISE = Exercise(
    "8.6", "Stage", examine_stage,
    (
        "Another rank has computed x, and its graph is there. What has x to be, so that a "
        "backward on this rank ends at it, and leaves a gradient there?",
        "x.detach() has no history, and requires_grad_() has its gradient noted. Letters have "
        "none: x.detach().requires_grad_(x.is_floating_point()).",
        "Then the piece computes, and `then` follows it. The result goes two ways: self.keep "
        "gets it with its graph, for the backward; the next stage gets it without.",
        "backward: x, y = self.kept.pop(i). y.backward(gradient) adds to the weights' "
        "gradients and leaves x.grad; of the loss gradient is None, which backward() takes.",
    ),
    lab="pipeline_parallel",
)  # fmt: skip
