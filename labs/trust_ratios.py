# Built from chapters/ch06_zero/labs/trust_ratios.py by `make build`.
"""LARS and LAMB: each layer's step is as long as a share of the layer's own norm, on shards too.

torchrun --nproc-per-node 4 labs/trust_ratios.py
"""

from statistics import median

import torch
import torch.distributed as dist
from gradient_accumulation import digits
from large_batches import MOMENTUM, Models, results_of, steps_of
from torch import Tensor

SEEDS, BETAS = 5, (0.9, 0.999)

# ---- The rule -------------------------------------------------------------------------------


def trust_ratios(weights, aims, add=None, dims=None) -> list[Tensor]:
    """Return, for each layer, the norm of its weight divided by the norm of its step.

    aims  the step of each layer at rate 1; where a norm is 0, the ratio is 1
    add   sums a tensor over the ranks that hold other parts of the same layers, in place
    dims  the dims to take a norm over; all by default
    Cost  one call of `add` for two numbers per layer
    """
    squares = torch.stack([
        torch.stack([x.double().square().sum(dim=dims).reshape(-1) for x in pair])
        for pair in zip(weights, aims)
    ])  # fmt: skip  # (layers, 2, models)
    if add:
        add(squares)
    of_weights, of_aims = squares.sqrt().unbind(1)
    ratios = torch.where((of_weights > 0) & (of_aims > 0), of_weights / of_aims, 1.0)
    return [r.to(w.dtype).view(-1, *[1] * (w.dim() - 1)) if dims else r.to(w.dtype)
            for r, w in zip(ratios, weights)]  # fmt: skip


class Layerwise:
    """SGD with momentum or Adam, with or without a trust ratio for each layer.

    Without ratios, they step as torch.optim.SGD and torch.optim.Adam do.

    parameters  layers, or this rank's part of each
    lr          a number, or a tensor that goes with each parameter
    adam        whether a step aims where Adam does; otherwise along the gradient
    by_layer    whether each layer's aim is multiplied by its trust ratio: a bool, or one for each
                parameter, as recipes leave out biases and norms
    add, dims   see `trust_ratios`
    Source      LARS: You et al. 2017, https://arxiv.org/abs/1708.03888; LAMB: You et al. 2019,
                https://arxiv.org/abs/1904.00962; both without weight decay here
    """

    def __init__(
        self, parameters, lr, momentum=0.0, adam=False, by_layer=False, add=None, dims=None
    ):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.adam, self.by_layer, self.add, self.dims = adam, by_layer, add, dims
        self.speeds, self.means, self.squares = (
            [torch.zeros_like(p, requires_grad=False) for p in self.parameters] for _ in range(3)
        )
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        aims = [p.grad for p in self.parameters]
        if self.adam:
            aims = [self.aim_of_adam(*three) for three in zip(aims, self.means, self.squares)]
        if self.by_layer:
            ratios = trust_ratios(self.parameters, aims, self.add, self.dims)
            chosen = [True] * len(aims) if self.by_layer is True else self.by_layer
            triples = zip(chosen, ratios, aims)
            aims = [ratio * aim if is_chosen else aim for is_chosen, ratio, aim in triples]
        for p, speed, aim in zip(self.parameters, self.speeds, aims):
            speed.mul_(self.momentum).add_(aim)
            p -= self.lr * speed

    def aim_of_adam(self, gradient, mean, square, eps=1e-8) -> Tensor:
        mean.lerp_(gradient, 1 - BETAS[0])
        square.lerp_(gradient.square(), 1 - BETAS[1])
        first, second = (1 - beta**self.steps for beta in BETAS)
        return mean / first / ((square / second).sqrt() + eps)


OPTIMIZERS = {
    "SGD": {"momentum": MOMENTUM},
    "LARS": {"momentum": MOMENTUM, "by_layer": True},
    "Adam": {"adam": True},
    "LAMB": {"adam": True, "by_layer": True},
}

# ---- Training at tuned rates ----------------------------------------------------------------

SCHEDULES = {"constant": lambda progress: 1.0, "linear": lambda progress: 1.0 - progress}
FIRST = {"SGD": 0.1, "LARS": 0.008, "Adam": 0.004, "LAMB": 0.02}
TRIED = {name: tuple(rate * 2**k for k in range(6)) for name, rate in FIRST.items()}


def train_at_rates(name, data, batch, passes) -> dict[tuple, list[float]]:
    """Train classifiers of digits; return {(rate, schedule): [loss of each seed]}.

    As in part 03l: a seed gives the same start and the same batches to each optimizer. Biases have
    no trust ratio.
    """
    images, labels, *_ = data
    tried = [(rate, schedule) for schedule in SCHEDULES for rate in TRIED[name]]
    models, options = Models(list(range(SEEDS)) * len(tried)), OPTIMIZERS[name]
    rates = torch.tensor([rate for rate, _ in tried]).double()
    by_layer = options.get("by_layer") and [w.shape[1] > 1 for w in models.weights]
    optimizer = Layerwise(models.weights, 0.0, dims=(1, 2), **options | {"by_layer": by_layer})
    orders = [torch.Generator().manual_seed(seed) for seed in range(SEEDS)]
    steps = steps_of(data, batch, passes)
    for step in range(steps):
        shares = torch.tensor([SCHEDULES[schedule](step / steps) for _, schedule in tried])
        optimizer.lr = (rates * shares).repeat_interleave(SEEDS)[:, None, None]
        chosen = torch.stack([torch.randperm(len(labels), generator=g)[:batch] for g in orders])
        chosen = chosen.repeat(len(tried), 1)
        losses = models.losses(images[chosen], labels[chosen])
        gradients = torch.autograd.grad(losses.sum(), models.weights)
        for weight, gradient in zip(models.weights, gradients):
            weight.grad = gradient
        optimizer.step()
    losses = [loss for loss, _ in results_of(models, *data)]
    return {key: losses[k * SEEDS : (k + 1) * SEEDS] for k, key in enumerate(tried)}


def tune_share(data, batches, passes) -> dict[tuple, dict]:
    """Train with this rank's share of the optimizers: {(batch, optimizer): what rates give}."""
    torch.set_flush_denormal(True)  # gradients of a diverged model have such numbers: slow ones
    mine = list(OPTIMIZERS)[dist.get_rank() :: dist.get_world_size()]
    return {(batch, name): train_at_rates(name, data, batch, passes)
            for batch in batches for name in mine}  # fmt: skip


def find_best(of_ranks, batches) -> dict[int, dict[str, tuple]]:
    """Return {batch: {optimizer: (rate and schedule with the lowest median loss, its losses)}}."""
    tried = {key: rates for of_rank in of_ranks for key, rates in of_rank.items()}
    found = {batch: {} for batch in batches}
    for batch in batches:
        for name in OPTIMIZERS:
            of = tried[batch, name]
            best = min(of, key=lambda key: median(of[key]))
            found[batch][name] = best, of[best]
    return found


def rows_of(tuned) -> list[list[str]]:
    """Return a table's rows: best rate and schedule, median loss and range of its seeds."""
    return [[f"{batch:,}", name, f"{rate:g}", schedule, f"{median(losses):.4f}",
             f"{min(losses):.4f} to {max(losses):.4f}"]
            for batch, of in tuned.items()
            for name, ((rate, schedule), losses) in of.items()]  # fmt: skip


def compare_losses(one, other, margin=1.1) -> str:
    """Say whether one of two is lower with each seed, by more than a factor of `margin`."""
    if all(margin * a < b for a, b in zip(one, other)):
        return "lower with each seed"
    if all(a > margin * b for a, b in zip(one, other)):
        return "higher with each seed"
    return "no difference that all seeds show"


def describe_ratios(tuned) -> str:
    """Describe what trust ratios do to the loss of SGD and of Adam, for each batch."""
    return "\n".join(
        f"batch {batch:5,}: {name} next to {plain}: {compare_losses(of[name][1], of[plain][1])}"
        for batch, of in tuned.items() for name, plain in (("LARS", "SGD"), ("LAMB", "Adam"))
    )  # fmt: skip


# ---- On shards ------------------------------------------------------------------------------

SHAPES = ((8, 3), (3,), (5, 2), (2,))


def layers_of(seed) -> list[Tensor]:
    chance = torch.Generator().manual_seed(seed)
    scales = (1.0, 0.1, 5.0, 0.01)
    return [scale * torch.randn(shape, generator=chance, dtype=torch.float64, device="cpu")
            for scale, shape in zip(scales, SHAPES)]  # fmt: skip


def part_of(flat, rank, n) -> Tensor:
    """Return a rank's part of a layer that is flattened and cut into n; the last may be shorter."""
    flat = flat.flatten()
    each = -(-len(flat) // n)
    return flat[rank * each : (rank + 1) * each].clone()


def try_shards(take_step, rate=0.1) -> tuple[list[float], float]:
    """Take one step on shards; return this rank's ratio of each layer, and its distance from right.

    take_step  takes this rank's parts of weights and gradients, and a rate
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    whole, slopes = layers_of(0), layers_of(1)
    weights, gradients = ([part_of(x, rank, n) for x in of] for of in (whole, slopes))
    take_step(weights, gradients, rate)
    ratios, gap = [], 0.0
    for w, g, new, slope in zip(whole, slopes, weights, gradients):
        old = part_of(w, rank, n)
        moved = (old - new).norm() / (rate * slope.norm()) if len(slope) else torch.tensor(0.0)
        ratios.append(moved.item())
        right = old - rate * w.norm() / g.norm() * slope
        gap = max(gap, ((new - right).norm() / w.norm()).item())
    return ratios, gap


def right_ratios() -> list[float]:
    return [(w.norm() / g.norm()).item() for w, g in zip(layers_of(0), layers_of(1))]


def main():
    from pedagogy_lib import launch

    run = launch(tune_share, digits(), [256], 4, world_size=2)
    if run.rank == 0:
        for name, ((rate, schedule), losses) in find_best(run.values, [256])[256].items():
            print(f"batch 256, {name}: best rate {rate:g}, {schedule}, loss {median(losses):.4f}")


if __name__ == "__main__":
    main()
