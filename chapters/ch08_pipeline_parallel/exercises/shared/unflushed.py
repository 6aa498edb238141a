"""A stage that is driven by hand, or in a pipeline without a flush."""

import gc
import warnings
import weakref
from types import SimpleNamespace

import torch
import torch.distributed as dist

from coursekit.kit import Rejection

from .versions import (
    BATCHES,
    LR,
    ROWS,
    SCRIPTS,
    WIDTH,
    actions_of,
    input_of,
    loss_of,
    piece_of,
    places_of,
    slope_of,
    target_of,
)

NOT_STASHED = (
    "when its backward comes the newest weights are others: the forward notes in self.stash[i] "
    "which ones it has gone through"
)

OWN_WEIGHTS = (
    "the forward has gone through self.piece as it is, with the weights that it began with, and "
    "nothing ever changes these. functional_call(self.piece, weights, (x,)) takes others"
)

NOT_REQUIRED = "a new version's tensors are asked for gradients: .requires_grad_()"

NO_LEAVES = (
    "the new tensors were computed from the old ones under the eyes of autograd, so each has a "
    "history, and the gradient goes on into it. Begin with weight.detach()"
)

NOT_THESE = (
    "gradients are where the forward's weights are: asked of the newest version, or after they "
    "have been cleared, there are none. What has this micro-batch stashed?"
)

NOT_THERE = (
    "self.weights has the newest version alone: one that somebody still needs is kept by its "
    "micro-batch, in self.stash"
)


def try_stage(answer, group, case):
    return drive(answer, *case.args) if case.args else run_pipeline(answer)


def drive(answer, place, in_the_end):
    stage = answer(piece_of(place), lr=LR)
    stage.update = need_gradients(stage, stage.update)
    found = SimpleNamespace(outputs={}, slopes={}, weights=[], sources={}, old=[], taken_over=False)
    for kind, i, _ in actions_of(SCRIPTS[place]):
        if kind == "F":
            go_forward(stage, place, i, found)
        else:
            go_back(stage, place, i, found)
    if in_the_end:
        return end_of(stage, found.old) | {"taken_over": found.taken_over}
    found.sources = [i for i, x in found.sources.items() if x.grad is not None]
    return vars(found) | {"old": 0, "taken_over": False}


def need_gradients(stage, update):
    """Return an update that refuses a gradient of None, as here all weights have a part in y."""

    def update_all(gradients):
        newest = stage.weights[stage.version]
        if any(gradients[name] is None for name, w in newest.items() if w.requires_grad):
            raise TypeError("unsupported operand: a weight less a gradient of None")
        update(gradients)

    return update_all


def go_forward(stage, place, i, found):
    """Run a forward on an input that has a history, unless it is letters.

    A gradient of the input's source shows that the backward went on into this history.
    """
    x = input_of(place, i)
    if x.is_floating_point():
        found.sources[i] = x.requires_grad_()
        x = x.clone()
    y = stage.forward(i, x, *([loss_of] if place == "last" else []))
    found.outputs[f"F{i}"] = y.detach().clone()
    stashed = stage.stash.get(i)
    if not isinstance(stashed, dict):
        what = "nothing" if stashed is None else f"{stashed!r:.30}"
        why = NOT_STASHED if stashed is None else NOT_THERE
        raise Rejection(f"after F{i}, self.stash has {what} for micro-batch {i}", why)


def go_back(stage, place, i, found):
    found.old.append([weakref.ref(w) for w in stage.weights[stage.version].values()])
    stashed = stage.stash[i]
    try:
        with warnings.catch_warnings():  # a check says more about a missing gradient
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
            found.slopes[f"B{i}"] = stage.backward(i, None if place == "last" else slope_of(i))
    except TypeError as error:
        raise (why_no_gradient(error, stage, i, stashed) or error) from None
    newest = stage.weights.get(stage.version) or {}
    found.taken_over |= any(ref() is w for w in newest.values() for ref in found.old[-1])
    found.weights.append(newest_of(stage))


def why_no_gradient(error, stage, i, stashed):
    """Return a `Rejection` for a computation with a gradient of None; None for any other error."""
    if "unsupported operand" not in str(error):
        return None
    if any(p.grad is not None for p in stage.piece.parameters()):
        return Rejection(f"in B{i}, the gradients are in self.piece's own parameters", OWN_WEIGHTS)
    if not all(w.requires_grad for w in stashed.values()):
        what = f"after B{i}, the weights have no gradient, nor do they require one"
        return Rejection(what, NOT_REQUIRED)
    if not all(w.is_leaf for w in stashed.values()):
        return Rejection(
            f"after B{i}, the weights have no gradient: they have a history", NO_LEAVES
        )
    return Rejection(f"in B{i}, the gradients are None: {error}", NOT_THESE)


def newest_of(stage) -> dict[str, torch.Tensor] | None:
    newest = stage.weights.get(stage.version)
    return newest and {name: w.detach().clone() for name, w in newest.items()}


def end_of(stage, old=()) -> dict:
    """Return what is left when all micro-batches are done.

    old      weak references to the weights of each version
    Returns  {"old": versions that are still alive, "left": names of the stage's dictionaries that
             are not empty, "delays" and "most_versions": those of the stage}
    """
    gc.collect()  # graphs may be in reference cycles
    return {
        "old": sum(any(ref() is not None for ref in refs) for refs in old),
        "left": [name for name in ("stash", "kept", "began_at") if getattr(stage, name)],
        "delays": stage.delays,
        "most_versions": stage.most_versions,
    }


def run_pipeline(answer):
    """Run this rank's stage in a pipeline without a flush.

    Returns  what `end_of` returns, and "weights": a list of one {name: tensor}, the newest version,
             and "losses": a float for each micro-batch, on the last rank alone
    """
    torch.set_default_dtype(torch.float64)  # for the tensors into which Pipeline receives
    rank, n = dist.get_rank(), dist.get_world_size()
    stage = answer(piece_of(places_of(n)[rank]), lr=LR)
    pipeline = answer.lab.AsynchronousPipeline([stage], loss_of, WIDTH)
    batches = [input_of("first", i) for i in range(BATCHES)], list(map(target_of, range(BATCHES)))
    pipeline.step(actions_of(ROWS[n][rank]), *batches)
    losses = [loss.item() for loss in pipeline.losses]
    return end_of(stage) | {"weights": [newest_of(stage)], "losses": losses}
