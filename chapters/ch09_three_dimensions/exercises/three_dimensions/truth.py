"""The right results, and the results of known mistakes."""

import math
from functools import cache

import torch
import torch.nn.functional as F

from coursekit.kit import Wrong
from coursekit.kit.reference_training import whole_transformer

from ..shared.meshes import all_places
from .cases import SIZES, STEPS, batch_of, sgd

LETTERS, OUTPUT = "letters.weight", "output.weight"

# The diagnoses of what a step leaves out, or does too early.
NO_ZERO = (
    "the gradients of the step before are still there, and the new ones are added to them: zero "
    "them before the pipeline's step"
)

NO_TIED = (
    "two stages have the weight of embedding and output, and each has its part of the gradient "
    "alone: nobody has added up the two parts"
)

NO_AVERAGE = (
    "each copy of the model goes its own way: with its own samples' gradient. They are to be "
    "averaged over the copies"
)

NO_CLIP = "the gradient is longer than `longest`, and nobody has shortened it"

TOO_EARLY = (
    "here each copy shortens its own gradient, before the mean is taken. The length that counts is "
    "that of the mean: average first"
)

BEFORE_TIED = (
    "here the length is measured before the gradient of the tied weight is complete: first "
    "complete it, then shorten"
)

NO_STEP = "the weights are as they were: the optimizer has taken no step, or had no gradients"

SUM = "these are sums over the copies: the gradient that one process has is their mean"

ALWAYS = "a gradient that is shorter than `longest` stays as it is: it is not made longer"

VARIANTS = {
    NO_ZERO: {"zero": False}, NO_TIED: {"tied": ""}, NO_AVERAGE: {"average": False},
    NO_CLIP: {"clip": ""}, TOO_EARLY: {"clip": "each copy"}, BEFORE_TIED: {"tied": "late"},
    NO_STEP: {"steps": False}, SUM: {"average": "sum"}, ALWAYS: {"clip": "always"},
}  # fmt: skip


@cache
def one_process(
    dp, stages, longest, zero=True, tied="early", average=True, clip="all", steps=True
) -> tuple[list[dict], list[list]]:
    """Train without ranks, and return the weights of each copy, and the losses in each step.

    tied  when both parts of the tied weight's gradient are added up: "early", "late", or never
    clip  what is shortened: "all", the mean; "each copy", each gradient before the mean is taken;
          "always", the mean, which is also lengthened; or "", nothing
    """
    copies, losses = [make_untied_model() for _ in range(dp)], []
    for number in range(STEPS):
        before = [letters_gradient(model) if not zero and stages == 1 else 0 for model in copies]
        losses.append(backward(copies, *batch_of(number, dp), zero))  # one per copy
        grads = [{name: p.grad for name, p in model.named_parameters()} for model in copies]
        if tied == "early" or (stages == 1 and tied):
            add_tied(grads, before)
        if clip == "each copy":
            shorten(grads, longest)
        if average:
            for name in grads[0]:
                mean = sum(of[name] for of in grads) / (dp if average != "sum" else 1)
                for of in grads:
                    of[name].copy_(mean)
        if clip in ("all", "always"):
            shorten(grads, longest, always=clip == "always")
        if tied == "late" and stages > 1:
            add_tied(grads, before)
        if steps:
            for model in copies:
                sgd(model.parameters()).step()
    return [{name: p.detach() for name, p in model.named_parameters()} for model in copies], losses


def make_untied_model():
    """Return the model with the output's weight as a separate parameter."""
    model, from_tied = (whole_transformer(tied=tied, **SIZES) for tied in (False, True))
    model.load_state_dict(from_tied.state_dict())
    return model


def backward(copies, inputs, targets, zero) -> list[float]:
    losses = []
    shares = zip(copies, inputs.chunk(len(copies)), targets.chunk(len(copies)))
    for model, letters, following in shares:
        if zero:
            model.zero_grad()
        loss = F.cross_entropy(model(letters).flatten(0, 1), following.flatten())
        loss.backward()
        losses.append(loss.item())
    return losses


def letters_gradient(model):
    gradient = model.letters.weight.grad
    return 0 if gradient is None else gradient.clone()


def add_tied(grads, before):
    """Add up both parts of the tied weight's gradient in each copy.

    before  the old gradient of each copy, which both parts include, but a tied parameter only once
    """
    for of, once in zip(grads, before):
        both = of[LETTERS] + of[OUTPUT] - once
        of[LETTERS].copy_(both)
        of[OUTPUT].copy_(both)


def shorten(grads, longest, always=False):
    """Scale each copy's gradients down to the norm `longest`, and with `always` also up to it.

    The output's weight is not counted: its gradient is the same as the embedding's by now.
    """
    for of in grads:
        squares = sum(g.pow(2).sum() for name, g in of.items() if name != OUTPUT)
        for gradient in of.values():
            gradient *= (longest / (squares.sqrt() + 1e-6)).clamp(max=math.inf if always else 1)


def train_one_process(trial, **how) -> tuple[list[dict], list[list]]:
    sizes, longest = trial.case.args
    return one_process(sizes["dp"], sizes["pp"], longest, **how)


def weights_of(trial, place, **how) -> dict:
    """Return the weights of this rank's stage; on the last one, the tied weight is the output's."""
    sizes = trial.case.args[0]
    at, stages = all_places(sizes)[place], sizes["pp"]
    weights = dict(train_one_process(trial, **how)[0][at["dp"]])
    if at["pp"] == stages - 1 > 0:
        weights[LETTERS] = weights[OUTPUT]
    return {name: weights[name] for name in names_of_stage(at["pp"], stages)}


def names_of_stage(stage, stages) -> list[str]:
    """Return a stage's parameters; embedding, blocks, and norm with output are divided evenly."""
    names = [name for name, _ in whole_transformer(**SIZES).named_parameters()]
    layers = [("letters.", "places."), *((f"blocks.{k}.",) for k in range(SIZES["layers"])),
              ("norm.", LETTERS)]  # fmt: skip
    mine = [layers[k] for k in torch.arange(len(layers)).tensor_split(stages)[stage]]
    return [name for name in names if name.startswith(sum(mine, ()))]


def wrong_weights(trial, place) -> dict:
    return {why: weights_of(trial, place, **how) for why, how in VARIANTS.items()}


def losses_of(trial, place) -> list[float]:
    return [sum(each) / len(each) for each in train_one_process(trial)[1]]


def loss_mistakes(trial, place):
    right, sizes = losses_of(trial, place), trial.case.args[0]
    of_copy = [each[all_places(sizes)[place]["dp"]] for each in train_one_process(trial)[1]]
    is_last = is_on_last_stage(trial, place)
    return {
        "the last stages know the loss, each that of its copy, and others have 0. All ranks need "
        "the mean over the copies": of_copy if is_last else [0.0] * STEPS,
        "this is a sum over ranks, and asked is a mean over copies":
            [loss * sizes["dp"] * sizes["tp"] for loss in right],
    }  # fmt: skip


def is_on_last_stage(trial, place) -> bool:
    sizes = trial.case.args[0]
    return place // sizes["tp"] % sizes["pp"] == sizes["pp"] - 1


def averages_once(trial):
    for place, calls in enumerate(trial.calls):
        times = sum(call.group == "dp" for call in calls)
        if times > STEPS:
            what = (
                f"{trial.name_of_rank(place)} communicates {times} times along dp in {STEPS} steps"
            )
            why = (
                "one communication a step is enough: self.average() takes the mean of all gradients"
            )
            raise Wrong(f"cost, {trial.case}", f"weights and losses are right, but {what}", why)
