"""A loop that steps after several micro-batches."""

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close
from ..kit import Equals, Holds, never
from ..kit.alone import Alone, WarmExercise, alone
from .accumulation import (
    ACCUMULATED,
    CHANGED,
    are_same,
    copied,
    mean_loss,
    measure_memory,
    merged,
    one_each,
    told,
)
from .ex04_accumulate import make_model, samples_of

RATE = 0.1


def regression(number, size=5):
    source = torch.Generator().manual_seed(number)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return [(draw(size, 4), draw(size, 1)) for _ in range(number)]


def small_model():
    model = nn.Linear(4, 1).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(1.0, parameter.numel() + 1).view_as(parameter) / 4)
    return model


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def walk(groups, scale=1.0, keep=lambda number: False, share=lambda place: 1.0):
    """Where the weights end if each step goes along the summed gradients of a group.

    keep   takes the number of a step: whether it also goes along what the step before it did
    share  takes the place of a micro-batch in its group: how much it counts
    """
    model, kept = small_model(), None
    for number, group in enumerate(groups):
        losses = [
            share(place) * F.mse_loss(model(inputs), targets)
            for place, (inputs, targets) in enumerate(group)
        ]
        slopes = torch.autograd.grad(sum(losses), list(model.parameters()))
        kept = [a + b for a, b in zip(kept, slopes)] if kept and keep(number) else slopes
        with torch.no_grad():
            for parameter, slope in zip(model.parameters(), kept):
                parameter -= RATE * scale * slope
    return flat(model)


def train(answer, number, every):
    model, steps, forwards, backwards = small_model(), [], [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer.register_step_post_hook(lambda *_: steps.append(optimizer.param_groups[0]["lr"]))
    model.register_forward_pre_hook(lambda *_: forwards.append(1))
    model.weight.register_hook(lambda _: backwards.append(1))
    pieces = regression(number)
    given = copied(pieces)
    answer(model, nn.MSELoss(), given, optimizer, every)
    stands_still = bool(steps and backwards) and close(flat(model), walk([]))
    return {"stands_still": len(steps) if stands_still else 0, "weights": flat(model),
            "steps": (len(steps), number // every), "other_rate": any(r != RATE for r in steps),
            "passes": (len(forwards), len(backwards), number),
            "left": any(p.grad is not None and bool(p.grad.any()) for p in model.parameters()),
            "changed": not are_same(given, pieces)}  # fmt: skip


def right(trial, place):
    number, every = trial.case.args
    pieces = regression(number)
    return walk([merged(pieces[i : i + every])] for i in range(0, number, every))


def mistakes(trial, place):
    number, every = trial.case.args
    pieces, share = regression(number), 1 / every
    groups = [pieces[i : i + every] for i in range(0, number, every)]
    one_by_one = [[piece] for piece in pieces]
    last_ones = [[group[-1]] for group in groups]
    early = [pieces[:1], *(pieces[i - every + 1 : i + 1] for i in range(every, number, every))]
    always, within = lambda number: True, lambda number: number % every
    on = "you step after each micro-batch, and clear only after every `every`"
    return {
        "the gradients are summed, and the batch asks for their mean: this step is `every` times "
        "as long; divide each loss by `every`": walk(groups),
        "you step after each micro-batch: that is training with small batches": walk(one_by_one),
        "you step after each micro-batch, with a fraction of its gradient: from the second one "
        "on, gradients come from weights that have moved": walk(one_by_one, share),
        "only the last micro-batch of each batch counts: zero_grad() before each backward "
        "throws away what was to be accumulated": walk(last_ones),
        "only the last micro-batch of each batch counts, divided by `every`: zero_grad() in each "
        "round throws away what was to be accumulated": walk(last_ones, share),
        "the gradients are never cleared: each step goes along those of all batches "
        "before, too; zero_grad() belongs after step()": walk(groups, share, always),
        "the gradients are neither cleared after a step nor divided by `every`":
            walk(groups, 1.0, always),
        "the last micro-batches never come to a step: a batch is complete after its last "
        "micro-batch, not when the next one begins": walk(groups[:-1], share),
        "you step only once, at the end of all micro-batches": walk([pieces], share),
        "you step after the first micro-batch already: a count from 0 is divisible by `every` "
        "at once; count from 1": walk(early, share),
        "all is divided by the number of all micro-batches, len(micro_batches): divide by `every`, "
        "not by all": walk(groups, 1 / number),
        "all is divided by the number of samples in a micro-batch, which a mean loss has done: "
        "divide by `every`": walk(groups, 1 / len(pieces[0][0])),
        "earlier micro-batches count less than later ones: with each new one, what is in `.grad` "
        "already is divided again. Divide each loss, or `.grad` once, before the step":
            walk(groups, share=lambda place: share ** (every - place)),
        "nothing has moved: is there a backward(), and does optimizer.step() run?": walk([]),
        f"{on}: step() and zero_grad() belong together": walk(one_by_one, share, within),
        f"{on}; and nothing is divided by `every`": walk(one_by_one, 1.0, within),
    }  # fmt: skip


def measure(answer, make, arguments, pieces):
    """The loop with all micro-batches in one step, called like exercise 1.4."""

    def accumulate(model, loss_fn, micro_batches):
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        answer(model, loss_fn, micro_batches, optimizer, len(micro_batches))

    return measure_memory(accumulate, make, arguments, pieces)


EXERCISE = WarmExercise(
    "1.2",
    "train_accumulated",
    cases=[
        *(Alone(f"{number} micro-batches, a step after every {every}", train, (number, every))
          for number, every in ((6, 3), (6, 2), (4, 4), (4, 1))),
        Alone("memory, 8 micro-batches", measure, (make_model, (mean_loss,), samples_of([8] * 8))),
    ],
    work=alone,
    found=lambda case: ("weights",) if case.work is train else ("activations",),
    facts=[
        never("stands_still", "nothing has moved in {} optimizer steps",
              "you clear before the step: the step finds no gradient. step() first, then "
              "zero_grad()"),
        Equals("weights", right, mistakes, "weights"),
        Holds("steps", lambda steps: steps[0] == steps[1],
              lambda steps: f"{steps[0]} optimizer steps, expected {steps[1]}",
              "the weights are right, but optimizer.step() was not what moved them once for each "
              "batch"),
        never("other_rate", "the steps have another learning rate than the optimizer was given",
              "a smaller rate makes up for gradients that are too large with SGD alone: Adam would "
              "not notice. Leave the optimizer as it is, and let `.grad` have the mean"),
        one_each("passes"),
        CHANGED,
        never("left", "the gradients of the last step are still in `.grad`",
              "asked is that `.grad` is clean when the function ends: clear after the last step, "
              "too, not only before the first backward"),
        ACCUMULATED[-1],
    ],
    errors={"must match the size of tensor": "is it loss_fn that you call? Which loss that is, the "
            "caller chooses, and here it is another one than before"},
    told=lambda trial: told(trial) if trial.of("activations") else
    "the steps and the weights of whole batches",
    hints=(
        "backward() adds to .grad by itself: nothing need be collected. What you write is "
        "when to step, and when to clear.",
        "Count the micro-batches from 1; a batch is complete if number % every == 0.",
        "The mean over a batch of equal parts is the sum of their means, each divided by "
        "`every`: divide the loss before backward().",
    ),
)  # fmt: skip
