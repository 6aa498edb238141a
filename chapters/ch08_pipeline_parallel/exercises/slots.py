"""How long a pipeline takes, played step by step."""


def slots_of(stages, microbatches) -> int:
    """How long all forwards take, if one takes 1. The backwards are their mirror."""
    there = [0] * microbatches  # when each micro-batch is through with the stages so far
    for _ in range(stages):
        clock = 0
        for i in range(microbatches):
            there[i] = clock = max(clock, there[i]) + 1
    return there[-1]
