"""The right results, and the results of known mistakes."""

from .cases import PLACES

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


def faults(trial):
    for place, of in enumerate(trial):
        for at, seed, first in zip(PLACES, of.seeds, trial[0].seeds):
            if seed != first:
                why = HASHES if of.hashed else NOT_ALIKE
                yield (
                    f"{describe_numbers(at)} it is {first} on rank 0, and {seed} on rank {place}",
                    why,
                )
        if not of.again:
            yield (
                f"rank {place}: a second call gives another seed",
                ("the same mask has to come again: only the arguments may decide"),
            )
    same = {}
    for at, seed in zip(PLACES, trial[0].seeds):
        if same.get(seed, at) != at:
            what = (
                f"{describe_numbers(same[seed])} it is {seed}; {describe_numbers(at)} it is "
                f"{seed}, too"
            )
            yield what, why_alike(same[seed], at)
        same[seed] = at
    largest = max(trial[0].seeds)
    if largest < MASKS - 1:
        yield (
            f"the largest seed is {largest:,}",
            f"there are {MASKS:,} masks, and each has a seed of its own: numbers up to there do "
            "not suffice",
        )


def describe_numbers(at) -> str:
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
