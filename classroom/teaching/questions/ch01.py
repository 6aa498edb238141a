"""Chapter 01: a batch in parts."""

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_

from ..question import Question

W1, W2, B = 0.5, 0.25, 0.1


def house(rooms, baths, price):
    error = W1 * rooms + W2 * baths + B - price
    return {"loss": error**2, "g1": 2 * error * rooms, "g2": 2 * error * baths, "gb": 2 * error}


def house_by_autograd(rooms, baths, price):
    weights = torch.tensor([W1, W2, B], dtype=torch.float64, requires_grad=True)
    loss = (weights @ torch.tensor([rooms, baths, 1.0], dtype=torch.float64) - price) ** 2
    loss.backward()
    return dict(zip(("loss", "g1", "g2", "gb"), [loss.item(), *weights.grad.tolist()]))


def rate_of_the_whole(parts, rate):
    """Accumulate equal parts' means undivided; find the rate that moves the whole batch as far."""
    torch.manual_seed(0)
    x, y = torch.randn(8 * parts, 3, dtype=torch.float64), torch.randn(8 * parts).double()
    accumulated, whole = (torch.zeros(3, dtype=torch.float64, requires_grad=True) for _ in "ab")
    for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
        F.mse_loss(xs @ accumulated, ys).backward()
    F.mse_loss(x @ whole, y).backward()
    return {"same": rate * (accumulated.grad / whole.grad).mean().item()}


def sample_by_sample(first, second, third):
    samples = [1.0] * first + [2.0] * second + [6.0] * third
    parts = samples[:first], samples[first : first + second], samples[first + second :]
    return {"right": sum(samples) / len(samples),
            "plain": sum(sum(part) / len(part) for part in parts) / 3}  # fmt: skip


def tokens_by_loss(many, few, low, high):
    """Average over every token that is not padding, as cross_entropy counts it."""
    losses = torch.tensor([low] * many + [high] * few, dtype=torch.float64)
    means = torch.stack([losses[:many].mean(), losses[many:].mean()])
    return {"right": losses.mean().item(), "plain": means.mean().item()}


def simulate_clipping(back):
    together = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    twice = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    for part in ([3.0, 4.0], [float(-back), 4.0]):
        for weight in (together, twice):
            (weight @ torch.tensor(part, dtype=torch.float64)).backward()
        clip_grad_norm_([twice], 1.0)
    clip_grad_norm_([together], 1.0)
    (a, b), (c, d) = together.grad.tolist(), twice.grad.tolist()
    return {"a": a, "b": b, "c": c, "d": d}


def clip_on_paper(back):
    x, y = 3.0 - back, 8.0
    once = (x * x + y * y) ** 0.5
    p, q = 0.6 - back, 0.8 + 4
    again = (p * p + q * q) ** 0.5
    return {"a": x / once, "b": y / once, "c": p / again, "d": q / again}


def step_ratio(parts):
    """Return how much further a step goes when the gradients are `parts` times as large."""

    def measure_step(optimizer_of, factor):
        weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer = optimizer_of([weight])
        (weight * 0.3 * factor).sum().backward()
        optimizer.step()
        return 1 - weight.item()

    sgd = lambda p: torch.optim.SGD(p, lr=0.01)  # noqa: E731
    adam = lambda p: torch.optim.Adam(p, lr=0.01, eps=0.0)  # noqa: E731
    return {
        "sgd": measure_step(sgd, parts) / measure_step(sgd, 1),
        "adam": measure_step(adam, parts) / measure_step(adam, 1),
    }


def largest_part(batch, free, each):
    fitting = [size for size in range(1, batch + 1)
               if batch % size == 0 and size * each <= free]  # fmt: skip
    return {"size": fitting[-1], "parts": batch // fitting[-1]}


QUESTIONS = [
    Question(
        "1.1", "01", 2, 6,
        "A house has {rooms} bedrooms, {baths} bathrooms and the price {price}. The model "
        "predicts w1 × bedrooms + w2 × bathrooms + b, with w1 = 0.5, w2 = 0.25 and b = 0.1. The "
        "loss is the squared error. Compute the loss and its three gradients.",
        "The loss is {loss:.6g}. The gradients of w1, w2 and b are {g1:.6g}, {g2:.6g} and "
        "{gb:.6g}.",
        "With the error e = prediction − price, the loss is e². Its gradients are 2e × bedrooms, "
        "2e × bathrooms, and 2e.",
        given={"rooms": (4, 6), "baths": (2, 3), "price": (5, 7)},
        solve=house, again=house_by_autograd,
        stated={"loss": 5.76, "g1": -19.2, "g2": -9.6, "gb": -4.8},
    ),
    Question(
        "1.2", "01b", 2, 4,
        "A batch is cut into {parts} micro-batches of equal size. Each loss is the mean over its "
        "micro-batch, and each is followed by backward(). The losses are not divided. Then "
        "plain SGD takes one step with the learning rate {rate}. With which learning rate does "
        "SGD take the same step for the mean loss of the whole batch?",
        "With {same:g}: {parts} × {rate}.",
        "backward() adds to .grad. The sum of {parts} means is {parts} times the mean of the "
        "whole batch.",
        given={"parts": (4, 8, 5), "rate": (0.05, 0.02)},
        solve=lambda parts, rate: {"same": parts * rate}, again=rate_of_the_whole,
        stated={"same": 0.2},
    ),
    Question(
        "1.3", "01b", 2, 5,
        "Three micro-batches have {first}, {second} and {third} samples. The gradient of their "
        "mean losses is 1, 2 and 6. What is the gradient of the mean over all samples? What comes "
        "out if each of the three is divided by 3?",
        "{right:.4g}. Dividing each by 3 gives {plain:.4g}.",
        "Each mean counts with its share of the samples: (1 × {first} + 2 × {second} + "
        "6 × {third}) / ({first} + {second} + {third}). Dividing by 3 gives a sample of a small "
        "micro-batch more weight than one of a large micro-batch.",
        given={"first": (5, 10), "second": (2, 4), "third": (1, 2)},
        solve=lambda first, second, third: {
            "right": (first + 2 * second + 6 * third) / (first + second + third), "plain": 3.0},
        again=sample_by_sample,
        stated={"right": 1.875, "plain": 3},
    ),
    Question(
        "1.4", "01b", 2, 4,
        "Of two micro-batches of text, one has {many} tokens and the other one {few}, without "
        "padding. Their mean losses per token are {low} and {high}. What is the mean loss per "
        "token of the batch, and what is the mean of the two means?",
        "{right:.4g} per token. The mean of the two means is {plain:.4g}.",
        "({many} × {low} + {few} × {high}) / ({many} + {few}). Both micro-batches count alike "
        "only if they have the same number of tokens.",
        given={"many": (300, 500), "few": (100, 20), "low": (2.0, 1.5), "high": (4.0, 6.0)},
        solve=lambda many, few, low, high: {
            "right": (many * low + few * high) / (many + few), "plain": (low + high) / 2},
        again=tokens_by_loss,
        stated={"right": 2.5, "plain": 3},
    ),
    Question(
        "1.5", "01", 3, 8,
        "Two micro-batches give the gradients (3, 4) and (−{back}, 4). The norm is limited to 1. "
        "Which gradient does the optimizer get if clip_grad_norm_ is called once, before the "
        "step? Which one, if it is called after each backward()?",
        "Once: ({a:.3f}, {b:.3f}). After each backward: ({c:.3f}, {d:.3f}).",
        "Once: the sum (3 − {back}, 8), scaled to length 1. After each: (3, 4) becomes (0.6, "
        "0.8); the second backward adds (−{back}, 4) to it, and that is scaled to length 1. The "
        "first micro-batch has nearly lost its say.",
        given={"back": (3, 2, 5)},
        solve=clip_on_paper, again=simulate_clipping,
        stated={"a": 0.0, "b": 1.0, "c": -0.447214, "d": 0.894427},
    ),
    Question(
        "1.6", "01b", 3, 5,
        "Somebody accumulates the mean losses of {parts} equal micro-batches, and forgets to "
        "divide by {parts}. How many times too far does the first step go, with plain SGD? With "
        "Adam, if its epsilon is 0 and there is no weight decay?",
        "With SGD {sgd:g} times. With Adam {adam:g} time: it goes exactly as far as the right one.",
        "SGD's step is proportional to the gradient. Adam divides the mean gradient by the root "
        "of the mean square, so that a common factor cancels. The mistake stays invisible, until "
        "somebody clips the norm, or changes the optimizer.",
        given={"parts": (4, 8, 16)},
        solve=lambda parts: {"sgd": parts, "adam": 1}, again=step_ratio,
        stated={"sgd": 4, "adam": 1},
    ),
    Question(
        "1.7", "01c", 2, 4,
        "A batch has {batch} samples. Activations need {each} GB for a sample, and {free} GB are "
        "free for them. What is the largest size of equal micro-batches that fit? How many "
        "backward passes and how many optimizer steps does the batch take?",
        "{size} samples. {parts} backward passes, and 1 optimizer step.",
        "At most {free} / {each} samples fit at a time, and the size has to divide {batch}. "
        "Activations of a micro-batch are free again after its backward; the gradients stay, as "
        "large as before.",
        given={"batch": (96, 120), "free": (8, 10), "each": (0.5, 0.4)},
        solve=lambda batch, free, each: next(
            {"size": s, "parts": batch // s}
            for s in range(int(free / each + 1e-9), 0, -1) if batch % s == 0),
        again=largest_part,
        stated={"size": 16, "parts": 6},
    ),
]  # fmt: skip
