"""The right results."""

from coursekit.kit.collective_exercise import total


def truth(before, place, case):
    return [total(before, k) if k == place else None for k in range(case.n)]
