# Built from chapters/ch03_data_parallel/labs/old_gradients.py by `make build`.
"""The effect of old gradients without a race, each computed at the weights of some updates ago.

python labs/old_gradients.py
"""

import math
from statistics import median

import torch
import torch.nn.functional as F
from gradient_accumulation import digits
from parameter_server import make_classifier
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

# ---- One weight -----------------------------------------------------------------------------


def descend(staleness, rate, steps) -> list[float]:
    """Train one weight w with the loss w² / 2, from 1 on, where the gradient is an old w."""
    w = [1.0]
    for step in range(steps):
        w.append(w[-1] - rate * w[max(0, step - staleness)])
    return w


def largest_stable_rate(staleness, steps=4000) -> float:
    """Find, by bisection, the largest learning rate at which `descend` does not grow."""
    low, high = 0.0, 4.0
    for _ in range(14):
        rate = (low + high) / 2
        weights = descend(staleness, rate, steps)
        # Written so that weights that are infinite, or not a number, do not count as stable.
        is_stable = max(map(abs, weights[-100:])) <= max(map(abs, weights[100:200]))
        low, high = (rate, high) if is_stable else (low, rate)
    return low


def stable_rows(ages) -> list[list[str]]:
    """Return a table's rows: the gradients' age, the largest stable rate found, and a formula's."""
    return [[age, f"{largest_stable_rate(age):.2f}", f"{formula(age):.2f}"] for age in ages]


def formula(age) -> float:
    return 2 * math.sin(math.pi / (4 * age + 2))


# ---- A network ------------------------------------------------------------------------------


def batches_of(data, steps, samples=64):
    """Yield the same batches in every call, as pairs of images and labels."""
    images, labels = data[0].float(), data[1]
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        some = torch.randint(len(labels), (samples,), generator=generator)
        yield images[some], labels[some]


def gradient_at(model, weights, batch) -> Tensor:
    """Return the gradient of a batch at these weights, both as flat tensors."""
    vector_to_parameters(weights, model.parameters())
    loss = F.cross_entropy(model(batch[0]), batch[1])
    return parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))


@torch.no_grad()
def loss_at(model, weights, data) -> float:
    """Return the loss on all training data at these weights."""
    vector_to_parameters(weights, model.parameters())
    return F.cross_entropy(model(data[0].float()), data[1]).item()


def typical_loss(train, data, staleness, learning_rate, seeds=3) -> float:
    """Return the median loss on all data over several starts; diverged runs count as 100."""
    losses = []
    for seed in range(seeds):
        model = make_classifier(seed)
        losses.append(loss_at(model, train(model, staleness, learning_rate), data))
    return median(min(loss, 100.0) if math.isfinite(loss) else 100.0 for loss in losses)


def format_age(age) -> str:
    return {0: "fresh", 1: "1 update old"}.get(age, f"{age} updates old")


def best_rates(ends, rates) -> str:
    """Describe, for each age of the gradients, the rate with the lowest loss.

    ends  {age: the loss at each of `rates`}
    """
    best = {age: min(zip(losses, rates)) for age, losses in ends.items()}
    return "\n".join(f"{format_age(age)}: lowest loss {loss:.2f}, at rate {rate:g}"
                     for age, (loss, rate) in best.items())  # fmt: skip


def does_age_matter(fresh, old) -> str:
    """Judge the claim "stale gradients learn no faster" by losses at a small and at the best rate.

    fresh, old  (loss at the small rate, loss at its own best rate)
    """
    if not 0.9 < old[0] / fresh[0] < 1.1:
        return "right here: stale gradients are worse at each rate"
    return "depends" if old[1] > 1.5 * fresh[1] else "not seen here"


# ---- The program ----------------------------------------------------------------------------


def main():
    for age, tried, predicted in stable_rows((0, 1, 2, 4)):
        print(f"{age} updates old: largest stable rate {tried}, formula {predicted}")
    data, rates = digits()[:2], (0.1, 1.0)
    batches = list(batches_of(data, 100))

    def train(model, staleness, rate):
        weights = [parameters_to_vector(model.parameters()).detach()]
        for step, batch in enumerate(batches):
            gradient = gradient_at(model, weights[max(0, step - staleness)], batch)
            weights.append(weights[-1] - rate * gradient)
        return weights[-1]

    ends = {age: [typical_loss(train, data, age, rate, 1) for rate in rates] for age in (0, 2)}
    print(best_rates(ends, rates))


if __name__ == "__main__":
    main()
