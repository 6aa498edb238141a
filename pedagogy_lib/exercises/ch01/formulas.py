"""Gradient accumulation: what `check("1.…")` tries, and what `hint` says."""

import torch
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, first_off
from ...course.checking import Wrong
from ..kit.answers import attempt, numbers_of, recognise, require
from . import accumulation
from .accumulation import merged

# ---- 1.1: the gradients of one house -----------------------------------------------------------

HOUSE = ("the gradient of w1", "of w2", "of b")
THREE = "return the three numbers alone, in the order w1, w2, b: `return …, …, …`"
HOUSES = [(3, 2, 9, 1.0, 2.0, 0.5), (4, 2.5, 7, 0.3, -0.8, 1.25), (0, 3, 2, -1.5, 0.25, -0.5)]


def examine_house(answer):
    for x1, x2, price, *weights in HOUSES:
        w1, w2, b = (torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights)
        error = x1 * w1 + x2 * w2 + b - price
        expected = [slope.item() for slope in torch.autograd.grad(error**2, (w1, w2, b))]
        case = f"house ({x1}, {x2}) at {price}, weights {weights}"
        got = numbers_of(case, attempt(case, answer, x1, x2, price, *weights), HOUSE, THREE)
        guesses = wrong_slopes(x1, x2, price, *weights, expected)
        require(case, HOUSE, got, expected, guesses)
        yield f"{case}: as autograd"


def wrong_slopes(x1, x2, price, w1, w2, b, right):
    error = x1 * w1 + x2 * w2 + b - price
    dy, without_b = 2 * error, 2 * (error - b)
    return {
        "these are the numbers of house 1; use the arguments": [-115.836, -38.612, -19.306],
        "each is half of what it should be: the derivative of a square, d², is 2 d":
            [slope / 2 for slope in right],
        "the sign is turned round: the error is (y − price), with the prediction first; "
        "stepping against your gradient would make the loss grow": [-slope for slope in right],
        "these are all the derivative by y: the chain rule goes on, from y to w1 by "
        "dy/dw1 = x1, and to w2 by x2": [dy, dy, dy],
        "b is missing in your prediction: y = x1·w1 + x2·w2 + b":
            [without_b * x1, without_b * x2, without_b],
        "y depends on b with a slope of 1, however large b is": [right[0], right[1], dy * b],
        "you multiply by the weights; dy/dw1 is x1, what w1 is multiplied with":
            [dy * w1, dy * w2, dy],
        "you multiply by the squared error, the loss itself; its derivative is 2 (y − price)":
            [error**2 * x1, error**2 * x2, error**2],
        "these are the new weights after a step; asked are the gradients alone":
            [w - 0.001 * slope for w, slope in zip((w1, w2, b), right)],
        "all three are right, in another order: w1, w2, b is asked, and b is second here":
            [right[0], right[2], right[1]],
        "all three are right, in another order: w1, w2, b is asked, and b is first here":
            [right[2], right[0], right[1]],
    }  # fmt: skip


# ---- 1.2: the loop -----------------------------------------------------------------------------


TOO_EARLY = "you clear before the step: the step finds no gradient. step() first, then zero_grad()"


def examine_loop(answer):
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
    yield from accumulation.examine_memory_of_samples(as_one_batch(answer))


def as_one_batch(answer):
    """The loop with all micro-batches in one step, called like exercise 1.4."""

    def accumulate(model, loss_fn, micro_batches):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        answer(model, loss_fn, micro_batches, optimizer, len(micro_batches))

    return accumulate


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


# ---- 1.3: how much each micro-batch counts -----------------------------------------------------


FACTORS = "one factor for each micro-batch: a list"


def examine_shares(answer):
    for sizes in ([2, 1, 4, 1, 6], [8, 8, 8, 8], [8, 8, 8, 5], [5], [1, 7]):
        case = f"micro-batches of {sizes}"
        names = [f"the factor of micro-batch {i}" for i in range(len(sizes))]
        got = numbers_of(case, attempt(case, answer, list(sizes)), names, FACTORS)
        require(case, names, got, effects(sizes), wrong_shares(sizes))
        yield f"{case}: the mean over all {sum(sizes)}"


def effects(sizes):
    """By how much the mean over all samples grows if one micro-batch's mean grows by one."""
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return [(owners == i).double().mean().item() for i in range(len(sizes))]


def wrong_shares(sizes):
    return {
        "each micro-batch counts the same here: a sample of the small one then counts more than "
        "a sample of the others": [1 / len(sizes)] * len(sizes),
        f"each is {len(sizes)} times too large, the number of micro-batches: you compare with "
        "their mean size; what is multiplied is added up, so compare with all samples":
            [len(sizes) * size / sum(sizes) for size in sizes],
        "this is the factor of one sample; a micro-batch has several":
            [1 / sum(sizes)] * len(sizes),
        "upside down: a share is a part, divided by all": [sum(sizes) / size for size in sizes],
        "these make the sum over all samples, not the mean: divide by how many they are":
            sizes,
        "a larger micro-batch has to count more, not less": [1 / size for size in sizes],
        "you compare with the largest micro-batch; compare with all samples":
            [size / max(sizes) for size in sizes],
        "you compare with the first micro-batch; compare with all samples":
            [size / sizes[0] for size in sizes],
        "// cuts the fraction off; / keeps it": [size // sum(sizes) for size in sizes],
        "these count micro-batches, not samples; how many samples are there in all?":
            [size / len(sizes) for size in sizes],
    }  # fmt: skip
