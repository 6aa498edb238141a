"""What a micro-batch adds to the loss of the batch, in a pipeline with a bug.

The truth is one process that computes the mean loss of the whole batch.
"""

from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...course.labs import find_lab
from ..kit import At, Equals, RankExercise, World
from ..kit.one_process import flat
from ..kit.refused import Refused
from .actions import actions_of
from .ex06_stage import draw

LETTERS, CONTEXT, WIDTH = 7, 5, 3
NO_GRAPH = (
    "the loss has lost its graph: .item(), float() and .detach() give a number that autograd knows "
    "nothing of"
)
ONE_NUMBER = "what a micro-batch adds is one number: a mean over its letters, times its share"
THE_LAB = 'first: check("8.6") and check("8.7")'


def shares(sizes, letters=CONTEXT) -> dict[str, list[float]]:
    """{what it has misunderstood: what each micro-batch's mean is multiplied by}."""
    samples, m = sum(sizes), len(sizes)
    equal = (
        "every micro-batch has the same share, which is right if they are equally large. Here a "
        "sample of a small one counts more than one of a large one: what share of the batch's "
        "samples has it?"
    )
    told = {
        equal: [1 / m] * m,
        "this divides by the number of micro-batches, which is right only if all are equally "
        "large: what share of the batch's samples has it?": [1 / (samples // s) for s in sizes],
        "each micro-batch is taken for the whole batch. Gradients of micro-batches are added up, "
        "and nobody divides: of 4 equal ones they are 4 times those of one process. Adam hides it: "
        "its steps do not depend on how large gradients are": [1.0] * m,
        "the mean is divided by the micro-batch's samples once more: it is a mean already":
            [1 / s for s in sizes],
        "the mean is divided by the samples of the batch. As a mean it has lost how many samples "
        "it is of: len(targets)": [1 / samples] * m,
        "the sum over the letters is divided by samples. mean_loss is a mean over letters, and a "
        "sample has several": [letters * s / samples for s in sizes],
        "this is divided by the letters of a sample, too: mean_loss is their mean already":
            [s / samples / letters for s in sizes],
        "upside down: the share is the micro-batch's samples divided by those of the batch":
            [samples / s for s in sizes],
        "this is the sum over the samples of the micro-batch; the batch's mean is that of all, "
        "divided by batch_samples": [float(s) for s in sizes],
        "this is the sum over all letters; asked is a part of their mean":
            [float(letters * s) for s in sizes],
        "the share counts twice: once is enough": [(s / samples) ** 2 for s in sizes],
        f"{equal} And a number in the code is right for one batch alone": [0.25] * m,
        NO_GRAPH: [0.0] * m,
    }  # fmt: skip
    return {why: of for why, of in told.items() if of != [s / samples for s in sizes]}


# ---- The model, and what one process gets ---


def pieces_of(ranks) -> list[nn.Module]:
    """The same small model on any number of ranks."""
    layers = [nn.Embedding(LETTERS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, LETTERS)).double()
    for seed, parameter in enumerate(model.parameters()):
        parameter.data = draw(seed, *parameter.shape)
    return [model] if ranks == 1 else [model[:2], model[2:]]


def batch_of(sizes) -> tuple[list, list]:
    """Letters and what follows them, for each micro-batch."""
    both = (draw(40, sum(sizes), CONTEXT, 2) * 100).long() % LETTERS
    return [list(part.split(sizes)) for part in both.unbind(-1)]


def mean_loss(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def alone(trial, place, inputs, targets) -> SimpleNamespace:
    """One process: the mean loss, and the gradient of what is on the rank at a place."""
    pieces = pieces_of(trial.n)
    loss = mean_loss(nn.Sequential(*pieces)(inputs), targets)
    gradient = flat(torch.autograd.grad(loss, list(pieces[place].parameters())))
    return SimpleNamespace(loss=loss.item(), gradient=gradient)


def whole(trial, place):
    return alone(trial, place, *map(torch.cat, batch_of(trial.case.args)))


def weighed(trial, place) -> dict[str, torch.Tensor]:
    parts = [alone(trial, place, *one).gradient for one in zip(*batch_of(trial.case.args))]
    return {why: sum(share * part for share, part in zip(of, parts))
            for why, of in shares(trial.case.args).items()}  # fmt: skip


# ---- On the ranks ---


def two_steps(answer, group, case):
    """A step with the lab's own Pipeline, and one with the answer in it."""
    torch.set_default_dtype(torch.float64)
    lab = answer.lab

    class Weighed(lab.Pipeline):
        def part_of_loss(self, i, scores):
            return answer.function(scores, self.targets[i], sum(len(x) for x in self.inputs))

    try:
        _, own = step_of(lab, lab.Pipeline, group, case.args)
    except Exception as error:
        what = f"the Pipeline of your lab raises {type(error).__name__}: {error}"
        raise Refused(what, THE_LAB) from error
    loss, gradient = step_of(lab, Weighed, group, case.args)
    is_last = dist.get_rank(group) == dist.get_world_size(group) - 1
    return {"own": own, "gradient": gradient, "loss": loss if is_last else None}


def step_of(lab, kind, group, sizes):
    """One step, GPipe; returns the loss, and this rank's gradients."""
    piece = pieces_of(dist.get_world_size(group))[dist.get_rank(group)]
    pipeline = kind([lab.Stage(piece)], mean_loss, WIDTH, group)
    row = " ".join(f"{action}{i}" for action in "FB" for i in range(len(sizes)))
    loss = pipeline.step(actions_of(row), *batch_of(sizes))
    return loss, flat(torch.zeros_like(p) if p.grad is None else p.grad for p in piece.parameters())


def case_of(ranks, *sizes):
    return At(World(ranks), sizes, f", micro-batches of {' '.join(map(str, sizes))} samples")


class InPipeline(RankExercise):
    """An answer in a cell, that works in the learner's own lab."""

    def trials(self, answer):
        lab = find_lab("pipeline_parallel")  # here, as ranks do not know where labs are
        return super().trials(SimpleNamespace(function=answer, lab=lab))


EXERCISE = InPipeline(
    "8.8",
    "part_of_loss",
    cases=[case_of(2, 2, 2, 2, 2), case_of(2, 4, 3, 1), case_of(1, 4, 3, 1), case_of(2, 3)],
    work=two_steps,
    facts=[
        Equals("own", lambda trial, place: whole(trial, place).gradient, otherwise=THE_LAB,
               called="with its own part_of_loss, the gradient of your lab's Pipeline"),
        Equals("gradient", lambda trial, place: whole(trial, place).gradient, weighed),
        Equals("loss", lambda trial, place:
               whole(trial, place).loss if place == trial.n - 1 else None,
               otherwise="the gradients are right, but the batch's loss, the sum of the parts, is "
               "not"),
    ],
    told=lambda trial: f"the gradients and the loss of one process, {trial[trial.n - 1].loss:.4f}",
    errors={
        "'float' object has no attribute": NO_GRAPH,
        "'NoneType' object has no attribute": "it returned None: a function without `return` does",
        "does not have a grad_fn": NO_GRAPH,
        "implicitly created only for scalar": ONE_NUMBER,
        "converted to Scalar": ONE_NUMBER,
        "'mean_loss' is not defined": "run the cell that defines mean_loss first",
        "input batch_size": "mean_loss takes scores (samples, context, characters) and targets "
        "(samples, context) as they are",
    },
    lost="part_of_loss computes; it sends nothing, and waits for nobody",
    hints=(
        "Gradients of micro-batches are added up. What has to be added up, so that the sum is "
        "the mean over the whole batch?",
        "A micro-batch's mean is a sum divided by its own samples; it should have been divided "
        "by those of the batch.",
        "So multiply the mean by len(targets) / batch_samples. With 1/m it is right only as "
        "long as all micro-batches are equally large.",
    ),
)  # fmt: skip
