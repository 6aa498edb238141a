"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit.results import RETURNS_NONE

from .cases import make_microbatch, piece_of

KEPT_PAIR = "self.kept[i] is the pair (input, output), which self.keep puts there"

WHY = {  # {words of a fault or of an exception: the diagnosis}
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
    "gives None": RETURNS_NONE,
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


class Pass:
    """A plain pass of a micro-batch through a piece."""

    def __init__(self, case, place, i):
        self.of, self.piece = make_microbatch(case, place, i), piece_of(place)
        self.x = self.of.x.detach().clone()
        self.leaves = dict(self.piece.named_parameters())
        if self.x.is_floating_point():
            self.leaves["x"] = self.x.requires_grad_()
        self.raw = self.piece(self.x)
        self.y = self.of.then[0](self.raw) if self.of.then else self.raw

    def slopes(self, gradient) -> dict:
        """Return the gradients of the weights, and of x unless it is tokens, given the output's."""
        of_all = torch.autograd.grad(self.y, self.leaves.values(), gradient, retain_graph=True)
        return dict(zip(self.leaves, of_all))


def each(trial, place, name, value) -> dict:
    """Return {action: value(a plain pass)} for the actions done: all, if there is no fault."""
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
    """Return the gradients of the weights, combined over all backwards that were done."""
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
