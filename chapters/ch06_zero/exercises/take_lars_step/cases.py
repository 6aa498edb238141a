"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import GROUP, RankCase, World, measure_answer

LAYERS = (7, 4, 1, 6, 5, 3)  # numbers of each layer
ZERO_WEIGHT, ZERO_GRADIENT = 3, 4  # layers whose weights, or gradients, are all zeros
SCALES = (3.0, 0.02, 1.0, 1.0, 1.0, 40.0)

CASES = [
    RankCase(World(2), (0.5, 2), ", two layers"),
    RankCase(World(3), (0.1, len(LAYERS)), ", six layers, two of them with zeros"),
    RankCase(World(4), (0.1, len(LAYERS)), ", six layers, ranks without a part of some"),
    RankCase(World(1), (0.5, 2)),
    RankCase(GROUP, (0.1, 4)),
]


def layers_of(seed, count) -> list[torch.Tensor]:
    """Return layers as flat vectors: weights for seed 0, gradients for seed 1."""
    chance = torch.Generator().manual_seed(20 + seed)
    found = []
    for k, size in enumerate(LAYERS[:count]):
        whole = torch.randint(1, 10, (size,), generator=chance).double()
        whole += torch.arange(size) * (1 + seed)  # so that ranks' parts have different ratios
        found.append(whole * (SCALES[k] if seed == 0 else 1.0))
        if k == (ZERO_GRADIENT if seed else ZERO_WEIGHT):
            found[-1].zero_()
    return found


def part_of(flat, place, n) -> torch.Tensor:
    each = -(-len(flat) // n)
    return flat[place * each : (place + 1) * each].clone()


def try_step(answer, group, case):
    rate, count = case.args
    place, n = dist.get_rank(group), dist.get_world_size(group)
    weights, gradients = (
        [part_of(layer, place, n) for layer in layers_of(seed, count)] for seed in (0, 1)
    )
    given = list(weights)
    dist.barrier(group)
    with measure_answer():
        answer(weights, gradients, rate, group)
    wanted = [part_of(layer, place, n) for layer in layers_of(1, count)]
    return {
        "weights": [w.detach().clone() for w in given],
        "changed": not all(map(torch.equal, gradients, wanted)),
        "nan": sum(int((~w.isfinite()).sum()) for w in given),
    }
