"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import GROUP, RankCase, World, measure_answer
from coursekit.kit.observed_calls import all_waited

LAYERS = (6, 5, 1, 7, 4, 3)  # numbers of each layer
ZERO_WEIGHT, ZERO_GRADIENT = 3, 4  # layers whose weights, or gradients, are all zeros
ZERO_AT_END = 5  # layer whose last weight is zero, which may be all that a rank has of it
SMALL = 1 / 256  # so that it shows if something is added to a gradient's norm
SCALES = (3.0, 0.02, 1.0, 1.0, 1.0, 40.0)

CASES = [
    RankCase(World(2), (0.5, 2), ", two layers"),
    RankCase(World(3), (0.1, len(LAYERS)), ", six layers, two of them with zeros"),
    RankCase(World(4), (0.1, len(LAYERS)), ", six layers, ranks without a part of some"),
    RankCase(World(4), (0.1, 2), ", two layers, rank 3 has no number of them"),
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
        found.append(whole * (SCALES[k] if seed == 0 else SMALL))
        if k == (ZERO_GRADIENT if seed else ZERO_WEIGHT):
            found[-1].zero_()
        if not seed and k == ZERO_AT_END:
            found[-1][-1] = 0.0
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
    sizes, flat = [len(w) for w in weights], torch.cat(weights)
    weights = list(flat.split(sizes))  # views, as of one vector that the optimizer has
    dist.barrier(group)
    with measure_answer(), all_waited():
        answer(weights, gradients, rate, group)
    wanted = [part_of(layer, place, n) for layer in layers_of(1, count)]
    return {
        "weights": [w.clone() for w in flat.detach().split(sizes)],
        "changed": not all(map(torch.equal, gradients, wanted)),
        "nan": int((~flat.isfinite()).sum()),
    }
