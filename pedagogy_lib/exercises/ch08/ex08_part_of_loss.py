"""What a micro-batch adds to the loss of the batch: exercise 8.8, in a pipeline with a bug.

The truth is one process that computes the mean loss of the whole batch.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...course.labs import find_lab
from ..kit.differences import ratio, recognise
from ..kit.one_process import flat, why_raised
from ..kit.refused import Refused
from .ex06_stage import draw
from .ex07_pipeline import actions_of

LETTERS, CONTEXT, WIDTH = 7, 5, 3


@dataclass(frozen=True)
class Case:
    """A pipeline of so many ranks, and the samples of each micro-batch."""

    ranks: int
    sizes: tuple[int, ...]

    def __str__(self):
        who = "1 rank" if self.ranks == 1 else f"a pipeline of {self.ranks} ranks"
        return f"{who}, micro-batches of {' '.join(map(str, self.sizes))} samples"


CASES = [
    Case(2, (2, 2, 2, 2)),
    Case(2, (4, 3, 1)),
    Case(1, (2, 2, 2, 2)),
    Case(1, (4, 3, 1)),
    Case(2, (3,)),
]
NUDGE = (
    "each micro-batch is taken for the whole batch. The gradients of the micro-batches are added "
    "up, and nobody divides. Adam hides it: its steps do not depend on how large gradients are"
)
EQUAL_SHARES = (
    "every micro-batch has the same share, which is right if they are equally large. Here a sample "
    "of a small one counts more than one of a large one: what share of the batch's samples has it?"
)
BY_COUNT = (
    "this divides by the number of micro-batches, which is right only if all are equally large: "
    "len(targets) / batch_samples"
)
TWICE = "the mean is divided by the micro-batch's samples once more: it is a mean already"
SAMPLES_ALONE = (
    "the mean is divided by the samples of the batch. As a mean it has lost how many samples it is "
    "of: len(targets)"
)
SUM = (
    "the sum over the letters is divided by samples. mean_loss is a mean over letters, and a "
    "sample has several"
)
BY_LETTERS = "this is divided by the letters of a sample, too: mean_loss is their mean already"
INVERTED = "upside down: the share is the micro-batch's samples divided by those of the batch"
TIMES_SAMPLES = (
    "this is the sum over the samples of the micro-batch; the batch's mean is that of all, divided "
    "by batch_samples"
)
PLAIN_SUM = "this is the sum over all letters; asked is a part of their mean"
SQUARED = "the share counts twice: once is enough"
NO_GRADIENT = (
    "the loss has lost its graph: .item(), float() and .detach() give a number that autograd knows "
    "nothing of"
)
ONE_NUMBER = "what a micro-batch adds is one number: a mean over its letters, times its share"
SILENT = "part_of_loss computes; it sends nothing, and waits for nobody"
ERRORS = {
    "'float' object has no attribute": NO_GRADIENT,
    "'NoneType' object has no attribute": "it returned None: a function without `return` does",
    "does not have a grad_fn": NO_GRADIENT,
    "implicitly created only for scalar": ONE_NUMBER,
    "converted to Scalar": ONE_NUMBER,
    "'mean_loss' is not defined": "run the cell that defines mean_loss first",
    "input batch_size": "mean_loss takes scores (samples, context, characters) and targets "
    "(samples, context) as they are",
}
THE_LAB = 'first: check("8.6") and check("8.7")'
LOSS_ALONE = "the gradients are right, but the batch's loss, the sum of the parts, is not"


# ---- The model, and what one process gets ------------------------------------------------------


def pieces_of(ranks) -> list[nn.Module]:
    """The same small model on any number of ranks."""
    layers = [nn.Embedding(LETTERS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    layers.append(nn.Linear(WIDTH, LETTERS))
    model = nn.Sequential(*layers).double()
    for seed, parameter in enumerate(model.parameters()):
        parameter.data = draw(seed, *parameter.shape)
    return [model] if ranks == 1 else [model[:2], model[2:]]


def batch_of(case) -> tuple[list, list]:
    """Letters and what follows them, for each micro-batch."""
    both = (draw(40, sum(case.sizes), CONTEXT, 2) * 100).long() % LETTERS
    return [list(part.split(case.sizes)) for part in both.unbind(-1)]


def mean_loss(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def alone(case) -> SimpleNamespace:
    """One process: the loss of the batch, and the gradient of each micro-batch's own mean.

    Returns  parts: (micro-batches, parameters)
    """
    (model,) = pieces_of(1)
    losses = [mean_loss(model(x), y) for x, y in zip(*batch_of(case))]
    parts = [flat(torch.autograd.grad(loss, list(model.parameters()))) for loss in losses]
    inputs, targets = map(torch.cat, batch_of(case))
    whole = mean_loss(model(inputs), targets)
    gradient = flat(torch.autograd.grad(whole, list(model.parameters())))
    return SimpleNamespace(loss=whole.item(), gradient=gradient, parts=torch.stack(parts))


# ---- On the ranks ------------------------------------------------------------------------------


def try_cases(answer, lab):
    """On a rank, for each case: loss and gradients of its pipeline, the lab's own first."""
    torch.set_default_dtype(torch.float64)
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    found = []
    for case in CASES:
        group = None if case.ranks > 1 else groups[dist.get_rank()]
        control = lab_control(lab, case, group)
        step = step_of(part_by(answer, lab), case, group)
        found.append((control, step))
    return found


def lab_control(lab, case, group):
    """What the lab's own Pipeline comes to; raises `Refused` where it fails."""
    try:
        return step_of(lab.Pipeline, case, group, lab)
    except Exception as error:
        what = f"the Pipeline of your lab raises {type(error).__name__}: {error}"
        raise Refused(what, THE_LAB) from error


def part_by(answer, lab):
    """The lab's Pipeline, with the answer in it."""

    class Weighed(lab.Pipeline):
        def part_of_loss(self, i, scores):
            samples = sum(len(x) for x in self.inputs)
            return answer(scores, self.targets[i], samples)

    Weighed.lab = lab
    return Weighed


def step_of(pipeline_type, case, group, lab=None):
    """One step; returns the loss, and this rank's gradients."""
    lab = lab or pipeline_type.lab
    piece = pieces_of(case.ranks)[dist.get_rank(group)]
    pipeline = pipeline_type([lab.Stage(piece)], mean_loss, WIDTH, group)
    count = range(len(case.sizes))
    row = " ".join([*(f"F{i}" for i in count), *(f"B{i}" for i in count)])
    loss = pipeline.step(actions_of(row), *batch_of(case))
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in piece.parameters()]
    return loss, flat(gradients)


# ---- What is wrong -----------------------------------------------------------------------------


def examine_part(answer):
    lab = find_lab("pipeline_parallel")
    run = try_on_ranks("a pipeline of 2 ranks", try_cases, answer, lab, world_size=2,
                       explain=explain)  # fmt: skip
    for number, case in enumerate(CASES):
        right = alone(case)
        control, found = zip(*(of_rank[number] for of_rank in run.values))
        if not close(gradient_of(case, control), right.gradient):
            what = "the Pipeline of your lab gives wrong gradients, with its own part_of_loss"
            raise Wrong(str(case), what, THE_LAB)
        judge(case, right, gradient_of(case, found), found[-1][0])
        yield f"{case}: the gradients and the loss of one process, {right.loss:.4f}"


def explain(error) -> str:
    cause = getattr(error, "exception", None)
    if isinstance(cause, Refused):
        raise Wrong("a pipeline of 2 ranks", f"rank {error.rank}: {cause.what}", cause.why)
    return why_raised(ERRORS, SILENT, error)


def gradient_of(case, found):
    """All gradients of a pipeline as one tensor: of both ranks, or of rank 0, which is alone."""
    return torch.cat([gradient for _, gradient in found[: case.ranks]])


def judge(case, right, got, loss):
    if not close(got, right.gradient):
        factor = ratio(got, right.gradient)
        by = told_gap(got, right.gradient)
        off = f"{factor:.4g} times" if factor else f"off by up to {by} from"
        what = f"the gradients are {off} those of one process"
        guesses = {why: torch.tensor(shares, dtype=torch.float64) @ right.parts
                   for why, shares in guesses_at_shares(case).items()}  # fmt: skip
        raise Wrong(str(case), what, recognise(got, guesses))
    if not close(loss, right.loss):
        raise Wrong(str(case), f"the loss is {loss:.8g}, expected {right.loss:.8g}", LOSS_ALONE)


def guesses_at_shares(case) -> dict[str, list[float]]:
    """{sentence: what each micro-batch's mean is multiplied by}."""
    sizes, samples, m = case.sizes, sum(case.sizes), len(case.sizes)
    constant = {EQUAL_SHARES: [1 / m] * m} if m > 1 else {}
    return constant | {
        BY_COUNT: [1 / (samples // size) for size in sizes],
        NUDGE: [1.0] * m,
        TWICE: [1 / size for size in sizes],
        SAMPLES_ALONE: [1 / samples] * m,
        SUM: [CONTEXT * size / samples for size in sizes],
        BY_LETTERS: [size / samples / CONTEXT for size in sizes],
        INVERTED: [samples / size for size in sizes],
        TIMES_SAMPLES: [float(size) for size in sizes],
        PLAIN_SUM: [float(CONTEXT * size) for size in sizes],
        SQUARED: [(size / samples) ** 2 for size in sizes],
        EQUAL_SHARES + " And a number in the code is right for one batch alone": [0.25] * m,
    }


EXERCISE = Exercise(
    "8.8", "part_of_loss", examine_part,
    (
        "Gradients of micro-batches are added up. What has to be added up, so that the sum is "
        "the mean over the whole batch?",
        "A micro-batch's mean is a sum divided by its own samples; it should have been divided "
        "by those of the batch.",
        "So multiply the mean by len(targets) / batch_samples. With 1/m it is right only as "
        "long as all micro-batches are equally large.",
    ),
)  # fmt: skip
