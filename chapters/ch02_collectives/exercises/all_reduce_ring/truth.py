"""The right results."""

from coursekit.kit.collective_exercise import total


def truth(before, place, case):
    return [total(before, 0)]
