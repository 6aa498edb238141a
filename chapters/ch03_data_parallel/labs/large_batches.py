"""Large batches: rules for the learning rate, steps to a loss, and the noise of gradients.

python labs/large_batches.py
"""

from functools import partial
from itertools import pairwise
from math import log
from statistics import median

import torch
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import Tensor

SMALL, MOMENTUM = 32, 0.9  # the batch from which the rules set out, and momentum
HIDDEN, SEEDS = 64, 5
WARM_UP = 0.25  # share of all steps
RULES = ("constant", "linear", "linear, with warm-up")
RATES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # candidates where the best rate counts
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
ADAM_RULES = ("constant", "square root", "linear")
ADAM_RATES = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)


def rate_at(rule: str, rate: float, batch: int, progress: float) -> float:
    """Return the learning rate of a step, if SMALL is trained at `rate`.

    rule      "constant": `rate` for any batch. "linear": k times as much for a batch that is k
              times as large as SMALL (Goyal et al. 2017). With warm-up, the rate grows evenly from
              `rate` to that value during the first part of training, WARM_UP. "square root": the
              square root of k times as much (Malladi et al. 2022)
    progress  the share of training that is over, from 0 to 1
    """
    largest = rate * batch / SMALL
    if rule == "constant":
        return rate
    if rule == "linear":
        return largest
    if rule == "square root":
        return rate * (batch / SMALL) ** 0.5
    return rate + (largest - rate) * min(1.0, progress / WARM_UP)


class Models:
    """Several classifiers of digits, each with its own start, in shared tensors of weights.

    Shapes  weights: (models, inputs, outputs); samples: (models, batch, inputs)
    """

    def __init__(self, seeds, inputs=64, outputs=10):
        starts = [self.start(seed, inputs, outputs) for seed in seeds]
        self.weights = [torch.stack(same).requires_grad_() for same in zip(*starts)]
        self.speeds = [torch.zeros_like(w) for w in self.weights]

    @staticmethod
    def start(seed, inputs, outputs) -> list[Tensor]:
        chance = torch.Generator().manual_seed(seed)
        shapes = (inputs, HIDDEN), (1, HIDDEN), (HIDDEN, outputs), (1, outputs)
        scale = {HIDDEN: inputs**-0.5, outputs: HIDDEN**-0.5}
        return [torch.empty(shape, dtype=torch.float64).uniform_(-1, 1, generator=chance)
                * scale[shape[1]] for shape in shapes]  # fmt: skip

    def __call__(self, samples: Tensor) -> Tensor:
        first, bias, last, last_bias = self.weights
        return (samples @ first + bias).relu() @ last + last_bias

    def losses(self, samples, labels) -> Tensor:
        """Return each model's loss, averaged over its samples. Shapes: labels (models, batch)."""
        each = F.cross_entropy(self(samples).transpose(1, 2), labels, reduction="none")
        return each.mean(1)

    def step(self, losses: Tensor, rates: Tensor):
        """Take a step of SGD with momentum, each model at its own rate and on its own loss."""
        gradients = torch.autograd.grad(losses.sum(), self.weights)
        with torch.no_grad():
            for weight, speed, gradient in zip(self.weights, self.speeds, gradients):
                speed.mul_(MOMENTUM).add_(gradient)
                weight -= rates[:, None, None] * speed


class AdamModels(Models):
    """The same classifiers, which take steps of Adam. BETAS and EPSILON are those of any batch."""

    def __init__(self, seeds):
        super().__init__(seeds)
        self.squares = [torch.zeros_like(w) for w in self.weights]
        self.steps = 0

    def step(self, losses: Tensor, rates: Tensor):
        gradients = torch.autograd.grad(losses.sum(), self.weights)
        self.steps += 1
        first, second = (1 - beta**self.steps for beta in BETAS)  # corrections of early averages
        with torch.no_grad():
            for weight, speed, square, gradient in zip(
                self.weights, self.speeds, self.squares, gradients
            ):
                speed.lerp_(gradient, 1 - BETAS[0])
                square.lerp_(gradient.square(), 1 - BETAS[1])
                move = (speed / first) / ((square / second).sqrt() + EPSILON)
                weight -= rates[:, None, None] * move


def train(data, batch: int, passes, ways, seeds=SEEDS, models_of=Models) -> dict:
    """Train with seeds 0, 1, … in each way; return {way: [(loss, accuracy) of each seed]}.

    ways  {name: a function that returns the learning rate of a step, from the share of training
          that is over, from 0 to 1}
    models_of  Models for SGD with momentum, AdamModels for Adam
    The loss is over all training images, the accuracy over the test images. Each step draws a new
    batch. The number of samples is the same for each batch size, up to part of a batch. A seed
    gives the same start and the same batches in each way, so ways can be compared seed by seed.
    """
    images, labels, *_ = data
    models = models_of(list(range(seeds)) * len(ways))
    orders = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    steps = steps_of(data, batch, passes)
    for step in range(steps):
        chosen = torch.stack([torch.randperm(len(labels), generator=g)[:batch] for g in orders])
        chosen = chosen.repeat(len(ways), 1)
        rates = [rate_of(step / steps) for rate_of in ways.values() for _ in range(seeds)]
        models.step(models.losses(images[chosen], labels[chosen]), torch.tensor(rates).double())
    results = results_of(models, *data)
    return {way: results[k * seeds : (k + 1) * seeds] for k, way in enumerate(ways)}


@torch.no_grad()
def results_of(models, images, labels, test_images, test_labels) -> list:
    """Return (loss, accuracy) of each model."""
    n = len(models.weights[0])
    losses = models.losses(images.expand(n, -1, -1), labels.expand(n, -1))
    right = models(test_images.expand(n, -1, -1)).argmax(2) == test_labels
    return list(zip(losses.tolist(), right.double().mean(1).tolist()))


def try_batches(
    data, batches, passes, rate, rules=RULES, seeds=SEEDS, models_of=Models
) -> dict[int, dict]:
    """Train by each rule: {batch: {rule: [(loss, accuracy), …]}}, with one pair per seed.

    rate  the learning rate of the batch SMALL
    """

    def ways(batch):
        return {rule: partial(rate_at, rule, rate, batch) for rule in rules}

    return {batch: train(data, batch, passes, ways(batch), seeds, models_of) for batch in batches}


def try_rates(data, batch, passes, rates=RATES, models_of=Models) -> dict[float, list[float]]:
    """Train at several constant rates; return {rate: [loss of each seed]}."""
    ways = {rate: lambda _, rate=rate: rate for rate in rates}
    tried = train(data, batch, passes, ways, models_of=models_of)
    return {rate: [loss for loss, _ in pairs] for rate, pairs in tried.items()}


def best_of(at_rates) -> float:
    """Return the rate with the lowest median loss."""
    return min(at_rates, key=lambda rate: median(at_rates[rate]))


def tune_rates(data, batches, passes, rates=RATES) -> dict[int, tuple[float, list[float]]]:
    """Find the best constant rates: {batch: (rate with the best median, losses of its seeds)}."""
    tried = {batch: try_rates(data, batch, passes, rates) for batch in batches}
    return {batch: (best_of(losses), losses[best_of(losses)]) for batch, losses in tried.items()}


def try_adam(data, batches, passes) -> tuple[dict, dict]:
    """Try ADAM_RULES with Adam, from the best of ADAM_RATES at SMALL, and tune each batch.

    Returns  {rule: {batch: [loss of each seed]}}, and what `tune_rates` returns, for Adam
    """
    tried = {batch: try_rates(data, batch, passes, ADAM_RATES, AdamModels) for batch in batches}
    tuned = {batch: (best_of(losses), losses[best_of(losses)]) for batch, losses in tried.items()}
    found = try_batches(data, batches, passes, tuned[SMALL][0], ADAM_RULES, models_of=AdamModels)
    return group_by_rule(found, 0), tuned


def rows_of_adam(losses, tuned) -> list[list]:
    """Return a table's rows: median losses by the rules, and at the best rate of each batch."""
    return [[batch, *(f"{median(losses[rule][batch]):.3f}" for rule in losses), f"{rate:g}",
             f"{median(values):.3f}"] for batch, (rate, values) in tuned.items()]  # fmt: skip


def compare_seeds(losses, one: str, other: str) -> str:
    """Describe with which batches all seeds of one rule end below all seeds of the other."""

    def batches_below(lower, higher):
        below = [b for b, of in losses[lower].items() if max(of) < min(losses[higher][b])]
        return ", ".join(map(str, below)) or "none"

    return (f"Batches with which all seeds of the {one} rule end below all seeds of the\n"
            f"{other} rule: {batches_below(one, other)}; above them: {batches_below(other, one)}."
            )  # fmt: skip


def rows_of_losses(losses, tuned) -> list[list]:
    """Return a table's rows: rates and median losses of the linear rule and of the best rate.

    losses  {rule: {batch: [loss of each seed]}}; tuned: the result of `tune_rates`
    """
    base = tuned[SMALL][0]
    return [[batch, f"{rate_at('linear', base, batch, 0):g}",
             f"{median(losses['linear'][batch]):.3f}", f"{rate:g}", f"{median(values):.3f}",
             f"{min(values):.3f} to {max(values):.3f}"]
            for batch, (rate, values) in tuned.items()]  # fmt: skip


def steps_of(data, batch, passes) -> int:
    return passes * len(data[1]) // batch


def group_by_rule(found, which) -> dict[str, dict[int, list[float]]]:
    """Return {rule: {batch: [value of each seed]}}; which: 0 for losses, 1 for accuracies."""
    return {rule: {batch: [pair[which] for pair in pairs[rule]] for batch, pairs in found.items()}
            for rule in next(iter(found.values()))}  # fmt: skip


WITHIN = 5.0  # a batch keeps up if its median loss is at most so many times the small batch's


def find_break(losses) -> int | None:
    """Find the first batch that does not keep up, in {batch: losses of its seeds}."""
    limit = WITHIN * median(losses[SMALL])
    return next((batch for batch, values in losses.items() if median(values) > limit), None)


def describe_rule(losses) -> str:
    """Describe where the linear rule breaks, and how the constant rate does there."""
    linear, at = losses["linear"], find_break(losses["linear"])
    small = f"A batch of {SMALL}: loss {median(linear[SMALL]):.3f}, {spread(linear[SMALL])}."
    if at is None:
        return f"{small}\nLinear rule: at most {WITHIN:g} times that with all batches."
    constant = losses["constant"]
    ahead = [str(b) for b in linear if b < at and max(linear[b]) < min(constant[b])]
    return (f"{small}\nLinear rule: over {WITHIN:g} times that from a batch of {at} on.\n"
            f"There its seeds end {spread(linear[at])}; with the constant rate,\n"
            f"{spread(constant[at])}. Smaller batches at which all its seeds end\n"
            f"below those of the constant rate: {', '.join(ahead) or 'none'}.")  # fmt: skip


def describe_best(tuned) -> str:
    """Describe up to which batch the best rate keeps up, and by how much the largest does not."""
    losses, largest = {batch: values for batch, (_, values) in tuned.items()}, max(tuned)
    times = median(losses[largest]) / median(losses[SMALL])
    apart = min(losses[largest]) > max(losses[SMALL])
    return (f"Best rate: over {WITHIN:g} times the small batch's loss from {find_break(losses)} on."
            f"\nA batch {largest / SMALL:g} times as large has a best rate "
            f"{tuned[largest][0] / tuned[SMALL][0]:g} times as high,\nand a loss {times:.0f} times "
            f"as high. {'All' if apart else 'Not all'} its seeds end above those of {SMALL}."
            )  # fmt: skip


def describe_warm_up(data, batch, passes, rate, seeds=16) -> str:
    """Compare the linear rule with and without warm-up on one batch, seed by seed."""
    if batch is None:
        return "The linear rule did not break here, so warm-up has nothing to mend."
    found = try_batches(data, [batch], passes, rate, RULES[1:], seeds)[batch]
    plain, warm = ([loss for loss, _ in pairs] for pairs in found.values())
    lower = sum(one < other for one, other in zip(warm, plain))
    verdict = "no clear difference"  # if the rules were alike, 13 of 16 would be rare: 1 in 50
    if max(lower, seeds - lower) >= 13 / 16 * seeds:
        verdict = "it helps" if lower > seeds / 2 else "it harms"
    return (f"With warm-up, a batch of {batch} ends lower for {lower} of {seeds} seeds,\n"
            f"median {median(warm):.2f} and not {median(plain):.2f}: {verdict}.")  # fmt: skip


def spread(values) -> str:
    return f"between {min(values):.3f} and {max(values):.3f}"


def steps_to(goal, data, batches, rates=RATES, limit=400) -> dict[int, list[int]]:
    """Count steps to a training loss, {batch: [steps of each seed]}, at the rate of best median.

    A seed that does not reach the loss has `limit`. The loss is over every fourth image.
    """
    images, labels, *_ = data
    some, of_some = images[::4], labels[::4]
    found = {}
    for batch in batches:
        models = Models(list(range(SEEDS)) * len(rates))
        n = SEEDS * len(rates)
        each = torch.tensor([rate for rate in rates for _ in range(SEEDS)]).double()
        reached = torch.full((n,), limit)
        chance = torch.Generator().manual_seed(0)
        for step in range(1, limit):
            chosen = torch.randint(len(labels), (n, batch), generator=chance)
            models.step(models.losses(images[chosen], labels[chosen]), each)
            with torch.no_grad():
                now = models.losses(some.expand(n, -1, -1), of_some.expand(n, -1))
            reached[(now < goal) & (reached == limit)] = step
            seeds = reached.view(-1, SEEDS)
            best = seeds[seeds.median(1).values.argmin()]
            if best.max() < limit:  # no other rate can have a smaller median now
                break
        found[batch] = best.tolist()
    return found


def rows_of_ranks(needed) -> list[list]:
    """Return a table's rows: gain and cost of more ranks, if each rank takes the smallest batch.

    needed  {batch: [steps of each seed]}
    """
    samples = min(needed)
    alone = median(needed[samples])
    return [[batch // samples, batch, f"{median(steps):g}", f"{alone / median(steps):.1f}",
             f"{median(steps) * batch / (alone * samples):.1f}"]
            for batch, steps in needed.items()]  # fmt: skip


def twice_the_fewest(needed) -> float:
    """Find the batch that takes twice the fewest steps, interpolated between those tried."""
    steps = {batch: median(of_seeds) for batch, of_seeds in sorted(needed.items())}
    goal, batches = 2 * min(steps.values()), list(steps)
    for small, large in pairwise(batches):
        if steps[small] >= goal > steps[large]:
            share = log(steps[small] / goal) / log(steps[small] / steps[large])
            return small * (large / small) ** share
    return float(batches[0])


# ---- Gradient noise -------------------------------------------------------------------------


def noise_and_signal(gradients: Tensor, samples: int) -> tuple[float, float]:
    """Estimate the noise of one sample, and the gradient's squared length without noise.

    gradients  (ranks, weights), each of `samples` samples, before the all-reduce
    Source     McCandlish et al. 2018, appendix A.1
    """
    n = len(gradients)
    before = gradients.square().sum(1).mean().item()  # squared length, before the all-reduce
    after = gradients.mean(0).square().sum().item()
    noise = (before - after) / (1 / samples - 1 / (n * samples))
    return noise, (n * after - before) / (n - 1)


def noise_along(data, rate, ranks=8, samples=16, steps=range(0, 200, 25), draws=60) -> dict:
    """Train with a batch of SMALL at `rate` and measure {step: (training loss, noise scale)}.

    draws  measurements to sum at the same weights, because a single one is noisy
    """
    images, labels, *_ = data
    models, chance, found = Models([0]), torch.Generator().manual_seed(0), {}

    def draw_losses(batch):
        chosen = torch.randint(len(labels), (1, batch), generator=chance)
        return models.losses(images[chosen], labels[chosen])

    def gradient():
        slopes = torch.autograd.grad(draw_losses(samples).sum(), models.weights)
        return torch.cat([slope.flatten() for slope in slopes])

    for step in range(max(steps) + 1):
        if step in steps:
            of_ranks = (torch.stack([gradient() for _ in range(ranks)]) for _ in range(draws))
            pairs = [noise_and_signal(gradients, samples) for gradients in of_ranks]
            noise, signal = map(sum, zip(*pairs))
            ((loss, _),) = results_of(models, *data)
            found[step] = loss, noise / signal
        models.step(draw_losses(SMALL), torch.tensor([rate]).double())
    return found


def steps_by_noise(needed, scale) -> dict[int, float]:
    """Predict {batch: steps} as fewest · (1 + scale / batch), fitted at the largest batch."""
    largest = max(needed)
    fewest = median(needed[largest]) / (1 + scale / largest)
    return {batch: fewest * (1 + scale / batch) for batch in needed}


def main():
    data, passes = digits(), 12
    rate = best_of(try_rates(data, SMALL, passes))
    print(f"best of {len(RATES)} rates with a batch of {SMALL}: {rate:g}")
    for batch, found in try_batches(data, (32, 128, 512, 1024), passes, rate).items():
        told = (f"{rule} {median(loss for loss, _ in pairs):.3f}" for rule, pairs in found.items())
        print(f"batch {batch:4}: loss after 12 passes, {', '.join(told)}")


if __name__ == "__main__":
    main()
