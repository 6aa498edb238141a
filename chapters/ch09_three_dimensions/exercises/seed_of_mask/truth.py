"""The right results, and the results of known mistakes."""

from .cases import PLACES

# Among 25,000 masks with seeds of 32 bits chosen by chance, 0.07 pairs are alike on average.
BY_CHANCE = 2

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
    alike = pairs_alike(trial[0].masks, trial[0].seeds)
    if len(alike) > BY_CHANCE:
        yield describe_pair(*alike[0], trial[0].seeds)


def pairs_alike(masks, seeds) -> list:
    """Return pairs of positions in PLACES with the same mask: equal seeds come first."""
    first, pairs = {}, []

    def order(pair):
        a, b = pair
        return seeds[a] != seeds[b], len(names_that_differ(PLACES[a], PLACES[b]))

    for number, mask in enumerate(masks):
        at = first.setdefault(mask, number)
        if PLACES[at] != PLACES[number]:
            pairs.append((at, number))
    return sorted(pairs, key=order)


def describe_pair(a, b, seeds):
    one, other = PLACES[a], PLACES[b]
    if seeds[a] == seeds[b]:
        what = f"{describe_numbers(one)} it is {seeds[a]}; {describe_numbers(other)} it is "
        return what + f"{seeds[a]}, too", why_alike(one, other)
    return (
        f"{describe_numbers(one)} it is {seeds[a]}; {describe_numbers(other)} it is {seeds[b]}, "
        "and the two masks are the same",
        "torch's generator on the CPU takes only the lowest 32 bits of a seed, and these are equal "
        "here: what a number adds in higher bits is lost",
    )


def names_that_differ(one, other) -> list[str]:
    return [name for name, a, b in zip(NAMES, one, other) if a != b]


def describe_numbers(at) -> str:
    return "for " + ", ".join(f"{name} {number}" for name, number in zip(NAMES, at))


def why_alike(one, other) -> str:
    differ = names_that_differ(one, other)
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
