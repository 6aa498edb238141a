"""The cases, and the code that runs next to the answer."""

import operator
import random
from itertools import product

import torch
import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.observed_calls import hashes_as_elsewhere
from coursekit.kit.results import NO_RETURN

# Numbers near powers of 2 and 10, where too small ranges begin anew, and some random ones, and all
# steps and all modules of one sample.
STEPS = (0, 1, 2, 10, 31, 100, 499, 500, 511, 512, 998, 999)

SAMPLES = (0, 1, 10, 99, 100, 999, 1000, 1024, 32_767, 32_768, 65_536, 99_999, 100_000, 499_999,
           500_000, 524_287, 524_288, 999_998, 999_999)  # fmt: skip

MODULES = (0, 1, 10, 31, 32, 84, 99, 100, 255, 256, 499, 500, 511, 512, 998, 999)

SOME = random.Random(0)

PLACES = (
    list(product(STEPS, SAMPLES, MODULES))
    + [
        (SOME.randrange(1000), SOME.randrange(1_000_000), SOME.randrange(1000))
        for _ in range(20_000)
    ]
    + [(step, 7, 3) for step in range(1000)]
    + [(3, 7, module) for module in range(1000)]
)

SEED = "a seed is a whole number from 0 to 2**63 - 1, as torch's generators take it"


def draw(answer, group, case):
    with hashes_as_elsewhere(dist.get_rank()) as hashed:
        return draw_all(answer) | {"hashed": bool(hashed)}


def draw_all(answer):
    seeds = []
    for place in PLACES:
        seed = answer(*place)
        is_whole = hasattr(type(seed), "__index__") and not isinstance(seed, bool)
        if is_whole:
            seed = operator.index(seed)  # NumPy's whole numbers are accepted, too
        if not is_whole or not 0 <= seed < 2**63:
            why = NO_RETURN if seed is None else SEED
            raise Rejection(f"seed_of_mask{place} returned {seed!r:.60}", why)
        seeds.append(seed)
    masks = [draw_mask(seed) for seed in seeds] if dist.get_rank() == 0 else []
    again = [answer(*place) for place in PLACES[::7]] == seeds[::7]
    return {"seeds": seeds, "masks": masks, "again": again}


def draw_mask(seed) -> tuple:
    """Return the first random numbers that decide about a mask with this seed."""
    chance = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(4, generator=chance, device="cpu").tolist())
