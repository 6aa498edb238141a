"""What is right."""

from coursekit.kit.trials import total


def truth(before, place, case):
    return [total(before, 0)]
