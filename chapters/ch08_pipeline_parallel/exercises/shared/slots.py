"""The time that a pipeline takes, simulated step by step."""


def slots_of(stages, microbatches) -> int:
    """Return how long all forwards take, if one takes 1. The backwards mirror them."""
    there = [0] * microbatches  # when each micro-batch leaves the stages so far
    for _ in range(stages):
        clock = 0
        for i in range(microbatches):
            there[i] = clock = max(clock, there[i]) + 1
    return there[-1]
