"""The seed of a dropout mask: the same on all ranks, another one for each mask."""

from itertools import product

from ..kit import At, RankExercise, Refused, World, complains
from ..kit.values import NO_RETURN

FINDS_A_BUG = True

STEPS, SAMPLES, MODULES = (0, 1, 10, 100, 999), (0, 1, 10, 100, 1000, 999_999), (0, 1, 10, 100, 999)
PLACES = list(product(STEPS, SAMPLES, MODULES))
NAMES = ("step", "sample", "module")
NOT_ALIKE = (
    "ranks of one tp group drop the same activation, each by itself. With other masks they compute "
    "with other numbers, and their copies of norms and biases drift apart"
)
SEED = "a seed is a whole number from 0 to 2**63 - 1, as torch's generators take it"


def draw(answer, group, case):
    seeds = []
    for place in PLACES:
        seed = answer(*place)
        is_seed = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63
        if not is_seed:
            why = NO_RETURN if seed is None else SEED
            raise Refused(f"seed_of_mask{place} returned {seed!r:.60}", why)
        seeds.append(seed)
    return {"seeds": seeds, "again": [answer(*place) for place in PLACES] == seeds}


def faults(trial):
    for place, of in enumerate(trial):
        for at, seed, first in zip(PLACES, of.seeds, trial[0].seeds):
            if seed != first:
                yield f"{called(at)} it is {first} on rank 0, and {seed} on rank {place}", NOT_ALIKE
        if not of.again:
            yield (
                f"rank {place}: a second call gives another seed",
                ("the same mask has to come again: only the arguments may decide"),
            )
    same = {}
    for at, seed in zip(PLACES, trial[0].seeds):
        if seed in same:
            what = f"{called(same[seed])} it is {seed}; {called(at)} it is {seed}, too"
            yield what, why_alike(same[seed], at)
        same[seed] = at


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
    cases=[At(World(3))],
    work=draw,
    facts=[complains(faults)],
    told=f"{len(PLACES)} masks have {len(PLACES)} seeds, the same ones on all ranks",
    errors={"unsupported operand": "step, sample and module are whole numbers"},
    hints=(
        "Which ranks have to draw the same mask? What do they all know alike?",
        "The rank must not decide. The step, the number of the sample in the whole batch, and the "
        "module must.",
        "As in a number with three digits: (step * 1_000_000 + sample) * 1_000 + module, as long "
        "as sample and module are smaller than these.",
    ),
)
