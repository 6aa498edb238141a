"""What is right."""


def truth(before, place, case):
    return before[case.root]
