"""Large batches: the same number of samples in fewer steps, with three rules for the learning rate.

python labs/large_batches.py
"""

from statistics import median

import torch
import torch.nn.functional as F
from gradient_accumulation import digits
from torch import Tensor

SMALL, RATE, MOMENTUM = 32, 0.05, 0.9  # a batch, and the learning rate that suits it
HIDDEN, SEEDS = 64, 5
WARM_UP = 0.25  # of the training
RULES = ("constant", "linear", "linear, with warm-up")


def rate_at(rule: str, batch: int, progress: float) -> float:
    """The learning rate of a step.

    rule      "constant": RATE for any batch. "linear": k times as much for a batch that is k times
              as large as SMALL (Goyal et al. 2017). With warm-up, the rate grows from RATE to that
              during the first part of the training, evenly
    progress  how much of the training is over: from 0 to 1
    """
    largest = RATE * batch / SMALL
    if rule == "constant":
        return RATE
    if rule == "linear":
        return largest
    return RATE + (largest - RATE) * min(1.0, progress / WARM_UP)


class Models:
    """Some classifiers of digits side by side, each with a start of its own: one matrix for all.

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
        """Of each model, the mean over its samples. Shapes: labels (models, batch)."""
        each = F.cross_entropy(self(samples).transpose(1, 2), labels, reduction="none")
        return each.mean(1)

    def step(self, losses: Tensor, rates: Tensor):
        """SGD with momentum, each model at a rate of its own; no model is in another's loss."""
        gradients = torch.autograd.grad(losses.sum(), self.weights)
        with torch.no_grad():
            for weight, speed, gradient in zip(self.weights, self.speeds, gradients):
                speed.mul_(MOMENTUM).add_(gradient)
                weight -= rates[:, None, None] * speed


def train(data, batch: int, passes=12) -> dict[str, list[tuple[float, float]]]:
    """Train with all rules and SEEDS seeds each: {rule: (loss, accuracy) of each seed}.

    The loss is that of all training images, the accuracy that of the test images. The number of
    samples is the same for each batch size, up to a part of a batch.
    """
    images, labels, test_images, test_labels = data
    models = Models(list(range(SEEDS)) * len(RULES))
    orders = [torch.Generator().manual_seed(seed) for seed in range(SEEDS)]
    steps = steps_of(data, batch, passes)
    for step in range(steps):
        chosen = torch.stack([torch.randperm(len(labels), generator=g)[:batch] for g in orders])
        chosen = chosen.repeat(len(RULES), 1)
        rates = [rate_at(rule, batch, step / steps) for rule in RULES for _ in range(SEEDS)]
        models.step(models.losses(images[chosen], labels[chosen]), torch.tensor(rates).double())
    return results_of(models, images, labels, test_images, test_labels)


@torch.no_grad()
def results_of(models, images, labels, test_images, test_labels) -> dict:
    n = SEEDS * len(RULES)
    losses = models.losses(images.expand(n, -1, -1), labels.expand(n, -1))
    right = models(test_images.expand(n, -1, -1)).argmax(2) == test_labels
    pairs = list(zip(losses.tolist(), right.double().mean(1).tolist()))
    return {rule: pairs[k * SEEDS :][:SEEDS] for k, rule in enumerate(RULES)}


def try_batches(data, batches, passes=12) -> dict[int, dict]:
    """{batch: {rule: [(loss, accuracy), …]}}, one pair for each seed."""
    return {batch: train(data, batch, passes) for batch in batches}


def steps_of(data, batch, passes) -> int:
    return passes * len(data[1]) // batch


def of_rules(found, which) -> dict[str, dict[int, list[float]]]:
    """{rule: {batch: [of each seed]}}; which: 0 for the losses, 1 for the accuracies."""
    return {rule: {batch: [pair[which] for pair in pairs[rule]] for batch, pairs in found.items()}
            for rule in RULES}  # fmt: skip


def what_was_found(losses, within=2.0) -> str:
    """In words: up to which batch each rule comes near the small batch, and where it breaks."""
    goal = within * median(losses[RULES[0]][SMALL])
    lines = [f"Loss of the small batch: {goal / within:.3f}."]
    for rule, of_rule in losses.items():
        good = [batch for batch, values in of_rule.items() if median(values) <= goal]
        lines.append(f"{rule}: at most {within:g} times that up to a batch of {max(good)}.")
    broken = [b for b, values in losses[RULES[1]].items() if median(values) > goal]
    if not broken:
        return "\n".join([*lines, "The linear rule did not break here."])
    at = min(broken)
    plain, warm = (losses[rule][at] for rule in RULES[1:])
    apart = max(warm) < min(plain), max(plain) < min(warm)
    verdict = ("it helps", "it harms")[apart.index(True)] if any(apart) else "no clear difference"
    return "\n".join([
        *lines,
        f"The linear rule breaks at {at}: its seeds end between {min(plain):.2f} and "
        f"{max(plain):.2f}.",
        f"With warm-up there, between {min(warm):.2f} and {max(warm):.2f}: {verdict}.",
    ])  # fmt: skip


def steps_to(goal, data, batches, rates=(0.05, 0.1, 0.2), limit=250) -> dict[int, int]:
    """The fewest steps to a training loss, {batch: steps}: the median of SEEDS seeds, at the best
    of some learning rates; `limit`, if none gets there. Each 4th image tells the loss."""
    images, labels, *_ = data
    some, of_some = images[::4], labels[::4]
    fewest = {}
    for batch in batches:
        models = Models(list(range(SEEDS)) * len(rates))
        each = torch.tensor([rate for rate in rates for _ in range(SEEDS)]).double()
        reached = torch.full((len(each),), limit)
        chance = torch.Generator().manual_seed(0)
        for step in range(1, limit):
            chosen = torch.randint(len(labels), (len(each), batch), generator=chance)
            models.step(models.losses(images[chosen], labels[chosen]), each)
            with torch.no_grad():
                n = len(each)
                now = models.losses(some.expand(n, -1, -1), of_some.expand(n, -1))
            reached[(now < goal) & (reached == limit)] = step
            best = reached.view(-1, SEEDS).median(1).values.min().item()
            if best < limit:  # a median that is there cannot become smaller
                break
        fewest[batch] = best
    return fewest


def main():
    for batch, found in try_batches(digits(), (32, 128, 512, 1024)).items():
        told = (f"{rule} {median(loss for loss, _ in pairs):.3f}" for rule, pairs in found.items())
        print(f"batch {batch:4}: loss after 12 passes, {', '.join(told)}")


if __name__ == "__main__":
    main()
