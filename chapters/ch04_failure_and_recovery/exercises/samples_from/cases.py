"""The code that runs next to the answer: an endless generator, cut off after some steps."""

from collections.abc import Iterator
from itertools import islice
from numbers import Integral

STEPS, MANY = 4, 3_000


class Steps(list):
    """The lists of the first steps, which the truth and the mistakes give as they are."""


def cut_off(answer):
    """Wrap an answer to return the lists of its first steps, or a text about what is no such list.

    They are looked at after the last of them, when a list that is filled again has changed.
    """

    def first_steps(*call):
        found = answer(*call)
        if isinstance(found, Steps):
            return found
        if not isinstance(found, Iterator):
            return f"a {type(found).__name__}"
        steps = list(islice(found, STEPS))
        odd = next(filter(None, map(describe_odd_step, steps)), "")
        return odd or [[tuple(map(int, pair)) for pair in step] for step in steps]

    return first_steps


def describe_odd_step(step) -> str:
    """Return what a step is if it is no list of pairs of whole numbers, or ""."""
    if not isinstance(step, list):
        return "a pair for a step" if is_pair(step) else f"a {type(step).__name__} for a step"
    for pair in step:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return f"a list with {pair!r:.30} in it"
        if not is_pair(pair):
            return f"a pair of {' and '.join(type(one).__name__ for one in pair)}"
    return ""


def is_pair(value) -> bool:
    is_two = isinstance(value, (list, tuple)) and len(value) == 2
    return is_two and all(isinstance(one, Integral) for one in value)


def count_many_steps(answer) -> int:
    return sum(1 for _ in islice(answer(0, 10, 2, 0, 2), MANY))
