"""A training step in three dimensions. The truth is one process, which each rank is as well.

A mistake is that one process which leaves out the same thing, or does it in the same wrong order.
"""

import math
from functools import cache, partial

import torch
import torch.nn.functional as F

from ...basics.closeness import close_in_float32
from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, Refused, World, answering, never
from ..kit.transformers import whole_transformer
from ..kit.values import NO_RETURN
from .meshes import all_places, in_words

SIZES = {"width": 8, "heads": 2, "layers": 2, "context": 6}
STEPS, SAMPLES = 2, 4  # samples of each copy
SHORT, LONG = 0.3, 1e3  # longest gradients: all are longer, none is
sgd = partial(torch.optim.SGD, lr=0.5)
LETTERS, OUTPUT = "letters.weight", "output.weight"

# What is left out, or done too early: [(what of the step, when it matters, what it means), …]
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
SHARES = (
    "each copy computes with its own share of the batch, in one call of the pipeline's step with "
    "all "
    "its micro-batches"
)
NO_STEP = "the weights are as they were: the optimizer has taken no step, or had no gradients"
SUM = "these are sums over the copies: the gradient that one process has is their mean"
ALWAYS = "a gradient that is shorter than `longest` stays as it is: it is not made longer"
VARIANTS = {
    NO_ZERO: {"zero": False}, NO_TIED: {"tied": ""}, NO_AVERAGE: {"average": False},
    NO_CLIP: {"clip": ""}, TOO_EARLY: {"clip": "each copy"}, BEFORE_TIED: {"tied": "late"},
    NO_STEP: {"steps": False}, SUM: {"average": "sum"}, ALWAYS: {"clip": "always"},
}  # fmt: skip


# ---- On a rank ---


def batch_of(number, dp):
    chance = torch.Generator().manual_seed(number)
    letters = torch.randint(128, (SAMPLES * dp, SIZES["context"] + 1), generator=chance)
    return letters[:, :-1], letters[:, 1:]


def train(answer, group, case):
    (sizes, longest), lab = case.args, answer.lab
    torch.set_default_dtype(torch.float64)
    try:
        mesh, model = lab.Mesh(sizes, lab.JOINT), lab.whole_model(**SIZES)
        engine, losses, changed = answer(model, mesh, 2, sgd, longest), [], False
        for number in range(STEPS):
            batch = batch_of(number, sizes["dp"])
            with answering():
                losses.append(engine.step(*batch))
            changed |= not all(map(torch.equal, batch, batch_of(number, sizes["dp"])))
        if None in losses:
            raise Refused("step() returned None", NO_RETURN)
        seen = sum(map(len, engine.pipeline.inputs))
        if seen != SAMPLES:
            what = f"the pipeline went through {seen} samples, of a share of {SAMPLES}"
            raise Refused(what, SHARES)
        mine = {id(p) for p in engine.parameters}
        weights = {
            name: lab.whole(p, mesh["tp"]).clone()
            for name, p in model.named_parameters() if id(p) in mine
        }  # fmt: skip
    finally:
        torch.set_default_dtype(torch.float32)
    return {
        "weights": weights,
        "changed": changed,
        "losses": [float(loss) for loss in losses],
    }


# ---- In one process ---


@cache
def one_process(
    dp, stages, longest, zero=True, tied="early", average=True, clip="all", steps=True
) -> tuple[list[dict], list[list]]:
    """The same training without ranks: the weights of each copy, and the losses in each step.

    tied  when both parts of the tied weight's gradient are added up: "early", "late", or never
    clip  what is shortened: "all", the mean; or "each copy", before it is taken; or ""
    """
    copies, losses = [untied() for _ in range(dp)], []
    for number in range(STEPS):
        before = [letters_gradient(model) if not zero and stages == 1 else 0 for model in copies]
        losses.append(backward(copies, *batch_of(number, dp), zero))  # of each copy
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


def untied():
    """The model, with the output's weight as a parameter of its own."""
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
    """before: what both had already, and what is one and the same number in one parameter"""
    for of, once in zip(grads, before):
        both = of[LETTERS] + of[OUTPUT] - once
        of[LETTERS].copy_(both)
        of[OUTPUT].copy_(both)


def shorten(grads, longest, always=False):
    """The output's weight counts with the embedding's, whose gradient is the same by now."""
    for of in grads:
        squares = sum(g.pow(2).sum() for name, g in of.items() if name != OUTPUT)
        for gradient in of.values():
            gradient *= (longest / (squares.sqrt() + 1e-6)).clamp(max=math.inf if always else 1)


# ---- What is right, and what is not ---


def trained(trial, **how) -> tuple[list[dict], list[list]]:
    sizes, longest = trial.case.args
    return one_process(sizes["dp"], sizes["pp"], longest, **how)


def weights_of(trial, place, **how) -> dict:
    """What this rank's stage should have; the last one has the tied weight as its output's."""
    sizes = trial.case.args[0]
    at, stages = all_places(sizes)[place], sizes["pp"]
    weights = dict(trained(trial, **how)[0][at["dp"]])
    if at["pp"] == stages - 1 > 0:
        weights[LETTERS] = weights[OUTPUT]
    return {name: weights[name] for name in names_of_stage(at["pp"], stages)}


def names_of_stage(stage, stages) -> list[str]:
    """The embedding, the blocks, and norm and output, shared out evenly among the stages."""
    names = [name for name, _ in whole_transformer(**SIZES).named_parameters()]
    layers = [("letters.", "places."), *((f"blocks.{k}.",) for k in range(SIZES["layers"])),
              ("norm.", LETTERS)]  # fmt: skip
    mine = [layers[k] for k in torch.arange(len(layers)).tensor_split(stages)[stage]]
    return [name for name in names if name.startswith(sum(mine, ()))]


def wrong_weights(trial, place) -> dict:
    return {why: weights_of(trial, place, **how) for why, how in VARIANTS.items()}


def losses_of(trial, place) -> list[float]:
    return [sum(each) / len(each) for each in trained(trial)[1]]


def loss_mistakes(trial, place):
    right, sizes = losses_of(trial, place), trial.case.args[0]
    of_copy = [each[all_places(sizes)[place]["dp"]] for each in trained(trial)[1]]
    is_last = at_last_stage(trial, place)
    return {
        "the last stages know the loss, each that of its copy, and others have 0. All ranks need "
        "the mean over the copies": of_copy if is_last else [0.0] * STEPS,
        "this is a sum over ranks, and asked is a mean over copies":
            [loss * sizes["dp"] * sizes["tp"] for loss in right],
    }  # fmt: skip


def at_last_stage(trial, place) -> bool:
    sizes = trial.case.args[0]
    return place // sizes["tp"] % sizes["pp"] == sizes["pp"] - 1


def averages_once(trial):
    for place, calls in enumerate(trial.calls):
        times = sum(call.group == "dp" for call in calls)
        if times > STEPS:
            what = f"{trial.who(place)} communicates {times} times along dp in {STEPS} steps"
            why = (
                "one communication a step is enough: self.average() takes the mean of all gradients"
            )
            raise Wrong(f"cost, {trial.case}", f"weights and losses are right, but {what}", why)


EXERCISE = RankExercise(
    "9.7",
    "ThreeDimensions",
    lab="three_dimensions",
    cases=[
        At(World(n), (sizes, longest), f", {in_words(sizes)}{what}")
        for n, sizes, longest, what in [
            (2, {"dp": 2, "pp": 1, "tp": 1}, SHORT, ""),
            (2, {"dp": 1, "pp": 2, "tp": 1}, SHORT, ""),
            (4, {"dp": 2, "pp": 1, "tp": 2}, LONG, ", short gradients"),
            (3, {"dp": 1, "pp": 3, "tp": 1}, SHORT, ""),
            (8, {"dp": 2, "pp": 2, "tp": 2}, SHORT, ""),
        ]
    ],
    work=train,
    facts=[
        Equals("weights", weights_of, wrong_weights, "the weights", same=close_in_float32),
        Equals("losses", losses_of, loss_mistakes, "the losses", same=close_in_float32),
        never("changed", lambda _: "the batch has changed",
              "it belongs to the caller: look at it, and leave it as it is"),
        averages_once,
    ],
    told=f"after {STEPS} steps, weights and losses are those of one process",
    lost="all ranks do the same, in the same order: the pipeline's step, the sum over the ends, "
    "the average, the clipping, the optimizer's step",
    needs=("9.5", "9.6"),
    warm=True,
    hints=(
        "Write down what one process does between two steps: zero_grad, forward and backward, "
        "clip_grad_norm_, step. Where does each axis have something to add?",
        "self.pipeline.step(self.actions, inputs, targets) takes lists of micro-batches: "
        "self.in_parts(…) makes them. It returns the loss.",
        "After it the gradients are those of this copy. First complete the tied weight's, then "
        "average, then clip: the length that counts is that of the complete mean.",
    ),
)  # fmt: skip
