"""The seed of a dropout mask: the same on all ranks, another one for each mask."""

import operator
import random
from itertools import product

import torch.distributed as dist

from ..kit import At, RankExercise, Refused, World, complains
from ..kit.hashes import hashes_as_elsewhere
from ..kit.values import NO_RETURN

FINDS_A_BUG = True

# Near powers of 2 and of 10, where ranges that are too small begin anew; and some drawn ones.
STEPS = (0, 1, 2, 10, 31, 100, 499, 500, 511, 512, 998, 999)
SAMPLES = (0, 1, 10, 99, 100, 999, 1000, 1024, 32_767, 32_768, 65_536, 99_999, 100_000, 499_999,
           500_000, 524_287, 524_288, 999_998, 999_999)  # fmt: skip
MODULES = (0, 1, 10, 31, 32, 84, 99, 100, 255, 256, 499, 500, 511, 512, 998, 999)
SOME = random.Random(0)
PLACES = list(product(STEPS, SAMPLES, MODULES)) + [
    (SOME.randrange(1000), SOME.randrange(1_000_000), SOME.randrange(1000)) for _ in range(20_000)
]
MASKS = 1000 * 1_000_000 * 1000
NAMES = ("step", "sample", "module")
NOT_ALIKE = (
    "ranks of one tp group drop the same activation, each by itself. With other masks they compute "
    "with other numbers, and their copies of norms and biases drift apart"
)
HASHES = (
    "hash() of a text is another one in each process (see PYTHONHASHSEED): ranks that torchrun "
    "starts "
    "would all differ"
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
            seed = operator.index(seed)  # numpy's whole numbers are as good
        if not is_whole or not 0 <= seed < 2**63:
            why = NO_RETURN if seed is None else SEED
            raise Refused(f"seed_of_mask{place} returned {seed!r:.60}", why)
        seeds.append(seed)
    return {"seeds": seeds, "again": [answer(*place) for place in PLACES[::7]] == seeds[::7]}


def faults(trial):
    for place, of in enumerate(trial):
        for at, seed, first in zip(PLACES, of.seeds, trial[0].seeds):
            if seed != first:
                why = HASHES if of.hashed else NOT_ALIKE
                yield f"{called(at)} it is {first} on rank 0, and {seed} on rank {place}", why
        if not of.again:
            yield (
                f"rank {place}: a second call gives another seed",
                ("the same mask has to come again: only the arguments may decide"),
            )
    same = {}
    for at, seed in zip(PLACES, trial[0].seeds):
        if same.get(seed, at) != at:
            what = f"{called(same[seed])} it is {seed}; {called(at)} it is {seed}, too"
            yield what, why_alike(same[seed], at)
        same[seed] = at
    largest = max(trial[0].seeds)
    if largest < MASKS - 1:
        yield (
            f"the largest seed is {largest:,}",
            f"there are {MASKS:,} masks, and each has a seed of its own: numbers up to there do "
            "not suffice",
        )


def called(at) -> str:
    return "for " + ", ".join(f"{name} {number}" for name, number in zip(NAMES, at))


def why_alike(one, other) -> str:
    differ = [name for name, a, b in zip(NAMES, one, other) if a != b]
    if len(differ) == 1:
        return {
            "step": "with the same mask in each step, these features never learn together",
            "sample": "samples with the same mask drop the same features: the mask of each is to "
            "be drawn for itself",
            "module": "two modules with the same mask drop the same features of one sample",
        }[differ[0]]
    return (
        "in a sum, different numbers may give the same: 1 + 2 is 2 + 1. Give each of the three a "
        "range of its own, as the digits of a number have"
    )


EXERCISE = RankExercise(
    "9.8",
    "seed_of_mask",
    cases=[At(World(4))],
    work=draw,
    facts=[complains(faults)],
    told=f"{len(set(PLACES)):,} masks have as many seeds, the same ones on all ranks",
    errors={"unsupported operand": "step, sample and module are whole numbers"},
    hints=(
        "Which ranks have to draw the same mask? What do they all know alike?",
        "The rank must not decide. The step, the number of the sample in the whole batch, and the "
        "module must.",
        "As in a number with three digits: (step * 1_000_000 + sample) * 1_000 + module, as long "
        "as sample and module are smaller than these.",
    ),
)
