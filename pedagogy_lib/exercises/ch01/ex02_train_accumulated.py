"""Training in batches of several micro-batches."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, first_off
from ...course.checking import Exercise, Wrong
from ..kit.answers import attempt, recognise
from .ex04_accumulate import EXERCISE as ACCUMULATE
from .rows import merged

TOO_EARLY = "you clear before the step: the step finds no gradient. step() first, then zero_grad()"


def examine(answer):
    for number, every in ((6, 3), (6, 2), (4, 4), (4, 1)):
        case = f"{number} micro-batches, a step after every {every}"
        pieces = regression(number)
        model, steps = small_model(), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_post_hook(lambda *_, steps=steps: steps.append(1))
        backwards = count_backwards(model)
        attempt(case, answer, model, nn.MSELoss(), pieces, optimizer, every)
        groups = [pieces[i : i + every] for i in range(0, number, every)]
        expected = walk([merged(group)] for group in groups)
        guesses = {why: walk(*how) for why, how in wrong_walks(pieces, groups, every).items()}
        guesses |= wrong_clearing(pieces, every)
        got = flat(model)
        if steps and backwards and close(got, walk([])):
            raise Wrong(case, f"nothing has moved in {len(steps)} optimizer steps", TOO_EARLY)
        if not close(got, expected):
            raise Wrong(case, first_difference(got, expected, len(steps), len(groups)),
                        recognise(got, guesses))  # fmt: skip
        if len(steps) != len(groups):
            raise Wrong(case, f"{len(steps)} optimizer steps, expected {len(groups)}",
                        "the weights are right, but optimizer.step() was not what moved them once "
                        "for each batch")  # fmt: skip
        yield f"{case}: the steps and the weights of whole batches"
    yield from need_memory_of_one(answer)


def need_memory_of_one(answer):
    """With all micro-batches in one step, called as exercise 1.4 is."""

    def accumulate(model, loss_fn, micro_batches):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        answer(model, loss_fn, micro_batches, optimizer, len(micro_batches))

    memory = [case for case in ACCUMULATE.cases if case.with_memory]
    yield from replace(ACCUMULATE, cases=memory).examine(accumulate)


def count_backwards(model):
    """A list that grows with each gradient that comes to the model."""
    calls = []
    model.weight.register_hook(lambda _: calls.append(1))
    return calls


def first_difference(got, expected, steps, wanted_steps) -> str:
    (index,) = first_off(got, expected)
    return (
        f"weight {index} ends at {got[index]:.6f}, expected {expected[index]:.6f} "
        f"({steps} optimizer steps, expected {wanted_steps})"
    )


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


def slopes(model, piece):
    inputs, targets = piece
    loss = F.mse_loss(model(inputs), targets)
    return torch.autograd.grad(loss, list(model.parameters()))


def walk(groups, keep=False, scale=1.0):
    """Where the weights end if each step goes along the summed gradients of a group.

    keep  whether a step also goes along the gradients of all groups before
    """
    model, kept = small_model(), None
    for group in groups:
        parts = [slopes(model, piece) for piece in group] + ([kept] if kept else [])
        total = [sum(part) for part in zip(*parts)]
        kept = total if keep else None
        with torch.no_grad():
            for parameter, slope in zip(model.parameters(), total):
                parameter -= 0.1 * scale * slope
    return flat(model)


def wrong_walks(pieces, groups, every):
    """{sentence: arguments of walk} for each misconception."""
    one_by_one = [[piece] for piece in pieces]
    last_ones = [[group[-1]] for group in groups]
    early = [pieces[:1], *(pieces[i - every + 1 : i + 1] for i in range(every, len(pieces), every))]
    share = 1 / every
    return {
        "the gradients are summed, and the batch asks for their mean: this step is "
        f"{every} times as long; divide each loss by `every`": (groups,),
        "you step after each micro-batch: that is training with small batches":
            (one_by_one,),
        "you step after each micro-batch, with a fraction of its gradient: from the second one "
        "on, gradients come from weights that have moved": (one_by_one, False, share),
        "only the last micro-batch of each batch counts: zero_grad() before each backward "
        "throws away what was to be accumulated": (last_ones,),
        "only the last micro-batch of each batch counts, divided by `every`: zero_grad() in each "
        "round throws away what was to be accumulated": (last_ones, False, share),
        "the gradients are never set back: each step goes along those of all batches "
        "before, too; zero_grad() belongs after step()": (groups, True, share),
        "the gradients are neither set back after a step nor divided by `every`": (groups, True),
        "you step only once, at the end of all micro-batches": ([pieces], False, share),
        "you step after the first micro-batch already: a count from 0 is divisible by `every` "
        "at once; count from 1": (early, False, share),
        "all is divided by the number of all micro-batches, len(micro_batches): divide by `every`, "
        "not by all": (groups, False, 1 / len(pieces)),
        "all is divided by the number of samples in a micro-batch, which a mean loss has done: "
        "divide by `every`": (groups, False, 1 / len(pieces[0][0])),
        "nothing has moved: is there a backward(), and does optimizer.step() run?": ([],),
    }  # fmt: skip


def wrong_clearing(pieces, every):
    """{sentence: the weights} for steps after each micro-batch, with what has come since a zero."""
    why = "you step after each micro-batch, and set back only after every `every`"
    return {
        f"{why}: step() and zero_grad() belong together": walk_on(pieces, every, 1 / every),
        f"{why}; and nothing is divided by `every`": walk_on(pieces, every, 1.0),
    }


def walk_on(pieces, every, scale):
    model, kept = small_model(), None
    for number, piece in enumerate(pieces):
        now = slopes(model, piece)
        kept = now if number % every == 0 else [a + b for a, b in zip(kept, now)]
        with torch.no_grad():
            for parameter, slope in zip(model.parameters(), kept):
                parameter -= 0.1 * scale * slope
    return flat(model)


EXERCISE = Exercise(
    "1.2", "train_accumulated", examine,
    (
        "backward() adds to .grad by itself: nothing need be collected. What you write is "
        "when to step, and when to set back.",
        "Count the micro-batches from 1; a batch is complete if number % every == 0.",
        "The mean over a batch of equal parts is the sum of their means, each divided by "
        "`every`: divide the loss before backward().",
    ),
)  # fmt: skip
