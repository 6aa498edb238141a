"""The right results."""


def truth(before, place, case):
    return [before[k][k] for k in range(case.n)]
