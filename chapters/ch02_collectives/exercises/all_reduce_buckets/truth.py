"""The right results."""

from coursekit.kit.collective_exercise import total


def truth(before, place, case):
    return [total(before, k) for k in range(len(before[0]))]
