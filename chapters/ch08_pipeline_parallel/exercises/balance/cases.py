"""The cases, and the code that runs next to the answer."""

import random
from contextlib import suppress

from coursekit.kit.results import outcome_of

LISTS = {  # {case: [(seconds of each layer, stages), …]}; the first distinguish misconceptions
    "the last one takes longest": [([1, 2, 1, 2, 3, 9], 3)],
    "the first one takes longest": [([9, 1, 1, 1, 1, 1], 3)],
    "one long one in the middle": [([2, 2, 2, 11, 2, 2, 2], 4)],
    "greedy sharing fails": [([4, 4, 4, 4, 4, 4, 1, 1, 7], 3)],
    "a small sum of squares fails": [([7, 2, 7, 8, 4, 2, 6, 3], 3)],
    "special ones": [
        ([3] * 7, 3), ([6, 4, 1, 11, 2], 3), ([0, 0, 5, 0, 0, 5, 0], 4), ([0, 0, 0], 2),
        ([5, 1, 3], 1), ([5, 1, 3], 3), ([4], 1),
    ],
}  # fmt: skip

RANDOM = 60  # number of further lists, of up to 8 layers

TOO_FEW = [([1, 2], 3), ([], 1)]

LAYERS, STAGES = 60, 10  # of the large list, which has over a thousand million cuts


def random_lists():
    """Yield (seconds of layers, stages); the second half has fractions, whose sums are exact."""
    chance = random.Random(8)
    for number in range(RANDOM):
        seconds = [chance.choice((0, 1, 2, 3, 5, 8)) for _ in range(chance.randint(2, 8))]
        seconds = seconds if number < RANDOM / 2 else [second / 8 for second in seconds]
        yield seconds, chance.randint(1, len(seconds))


def large_list() -> tuple[list[int], int]:
    chance = random.Random(13)
    return [chance.randint(1, 99) for _ in range(LAYERS)], STAGES


def share_out(answer, lists):
    found = []
    for seconds, stages in lists:
        given = list(seconds)
        outcome = outcome_of(answer, given, stages)
        outcome = outcome._replace(value=parse_sizes(outcome.value))
        found.append((outcome, given != seconds))
    return {"shared": found}


def parse_sizes(value):
    """Return a list of whole numbers, None for None, or the text of any other value."""
    with suppress(TypeError, ValueError, RuntimeError):
        sizes = value.tolist() if hasattr(value, "tolist") else list(value)
        if all(int(size) == size for size in sizes):
            return [int(size) for size in sizes]
    return None if value is None else f"{value!r:.60}"
