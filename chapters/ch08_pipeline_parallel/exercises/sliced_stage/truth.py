"""The right results, and the results of known mistakes."""

from functools import cache

import torch
import torch.nn.functional as F

from coursekit.kit.reference_training import whole_transformer
from pedagogy_lib.basics.closeness import close

from .cases import sizes_in_pipeline, tokens_in_pipeline
from .whole_samples_truth import whole


def stops(case, touched):
    """Yield (misconception, {block: kinds}), where these keys or values get no gradient."""
    blocks = [k for k, name in enumerate(case.layers.split(", ")) if name == "block"]
    both = ("keys", "values")
    yield SEEN if touched else OUTPUT_ALONE, dict.fromkeys(blocks, both)
    yield ONE_OF_TWO.format("keys", "values"), {k: ["values"] for k in blocks}
    yield ONE_OF_TWO.format("values", "keys"), {k: ["keys"] for k in blocks}
    yield ONE_BLOCK, dict.fromkeys(blocks[1:], both)
    yield LAST_BLOCK, dict.fromkeys(blocks[:-1], both)


OUTPUT_ALONE = (
    "this is y's backward alone. Later slices have looked at this one's keys and values, and what "
    "they have left in past.seen[i] has to go on from past.made[i]"
)

SEEN = (
    "past.seen[i] are leaves: a gradient that is given to them ends there. It goes on from "
    "past.made[i], the same numbers with the graph that leads to them"
)

ONE_OF_TWO = "later slices have looked at both: the gradients of the {} went on, not of the {}"

ONE_BLOCK = "each block has a past of its own: here the first one's alone went on"

LAST_BLOCK = "each block has a past of its own: here the last one's alone went on"


@cache
def compute_whole_gradients(n) -> dict:
    """Return the gradients of the whole model, by parameter."""
    model, (letters, following) = whole_transformer(**sizes_in_pipeline(n)), tokens_in_pipeline()
    F.cross_entropy(model(letters).flatten(0, 1), following.flatten()).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def right_in_pipeline(trial, place) -> dict:
    """Return this rank's gradients; embedding, blocks and logits are divided evenly."""
    blocks = [(f"blocks.{k}.",) for k in range(trial.n)]
    layers = [("letters.", "places."), *blocks, ("norm.", "output.")]
    mine = [layers[k] for k in torch.arange(len(layers)).tensor_split(trial.n)[place]]
    return {name: gradient for name, gradient in compute_whole_gradients(trial.n).items()
            if name.startswith(sum(mine, ()))}  # fmt: skip


def right(trial, place=0) -> dict:
    return whole(*trial.case.args)


def mistakes(trial, place):
    (case,), touched = trial.case.args, trial[place].touched
    twice = (
        "all gradients are there twice: y is an output among others, of one backward; if "
        "y.backward() comes besides, it counts twice"
    )
    wrong = {why: whole(case, stopped) for why, stopped in stops(case, touched)}
    return wrong | {twice: {k: None if x is None else 2 * x for k, x in right(trial).items()}}


def why_others(trial) -> str:
    found = trial[0].gradients
    if all(close(found[name], x) for name, x in right(trial).items() if name != "x"):
        return "the parameters' gradients are right: what comes back is to be x.grad"
    return EACH_ITS_OWN


def why_twice(case, error) -> str:
    if "a second time" not in str(error) or not case.args:
        return ""
    if len(case.args[0].sizes) == 2:
        return (
            "y and this slice's keys and values share a graph, and that is gone after the first "
            "backward. One torch.autograd.backward takes a list of outputs, and a list of their "
            "gradients"
        )
    return (
        "the outputs of slice i are past.made[i]. Those of the slices before it come in their own "
        "turn, when their gradients are complete; those after it are through"
    )


EACH_ITS_OWN = (
    "each output has its own gradient, and each just once: that of past.made[i][0], the keys, is "
    "in past.seen[i][0].grad; that of past.made[i][1], the values, in past.seen[i][1].grad"
)

PAIRS = "past.made[i] and past.seen[i] are pairs: keys, values"

AS_MANY = "torch.autograd.backward takes as many gradients as outputs"

NOT_IN = "one stage alone was right: what comes and goes between stages is Pipeline's"
