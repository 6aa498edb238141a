"""The right results, and the results of known mistakes."""

from coursekit.kit.tables import tabulate

from .cases import MICRO, POSSIBLE, STEPS, TRAIN, config

LARGEST = 64


@tabulate(lambda: list(POSSIBLE.values()))
def truth(given, copies) -> dict:
    """Try every micro-batch and number of steps; return the first that agrees with `given`."""
    wanted = {STEPS: 1} | given if len(given) == 1 else given
    for micro in range(1, LARGEST + 1):
        for steps in range(1, LARGEST + 1):
            one = config(micro * steps * copies, micro, steps)
            if wanted.items() <= one.items():
                return one
    raise ValueError(f"nothing agrees with {given}")


MISTAKES = {
    TRAIN: [
        (lambda g, n: g.get(MICRO, 0) * g.get(STEPS, 1), "these are the samples of one copy: a "
         "step has those of all copies"),
        (lambda g, n: g.get(MICRO, 0) * n * (STEPS in g), "each copy goes through several "
         "micro-batches in a step"),
    ],
    MICRO: [
        (lambda g, n: 1, "what is missing follows from the rule; only the accumulation steps are 1 "
         "where nothing tells them"),
        (lambda g, n: g.get(TRAIN, 0) // g.get(STEPS, 1), "the copies share out the samples: each "
         "of them has its own part of a step"),
        (lambda g, n: g.get(TRAIN, 0) // n * (STEPS in g), "this is what a copy gets for the whole "
         "step; it goes through it in several micro-batches"),
    ],
    STEPS: [
        (lambda g, n: len(g) > 1, "the accumulation steps are 1 if only one number is there; here "
         "they follow from the rule"),
        (lambda g, n: g.get(TRAIN, 0) // g.get(MICRO, 1), "the copies go through their "
         "micro-batches at the same time: each has its own part"),
        (lambda g, n: g.get(TRAIN, 0) // n, "this counts samples of a copy; asked are its "
         "micro-batches"),
    ],
}  # fmt: skip


@tabulate(lambda: list(POSSIBLE.values()))
def wrong_numbers(given, copies) -> dict[str, list[tuple]]:
    return {key: [(f(given, copies), why) for f, why in known] for key, known in MISTAKES.items()}
