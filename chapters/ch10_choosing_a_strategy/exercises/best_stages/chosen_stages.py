"""The criteria by which a cut into stages may be chosen without giving the shortest step."""

OTHER_COSTS = {  # {diagnosis: the cost of a plan, from its times and B micro-batches}
    "first the slowest stage, then the sum, is another order: a slower slowest stage may be worth "
    "it if the sum gets smaller": lambda t, B: (max(t), sum(t)),
    "first the sum, then the slowest stage, is another order: a larger sum may be worth it if the "
    "slowest stage gets faster": lambda t, B: (sum(t), max(t)),
    "the first micro-batch goes through all stages one after another: their sum counts, not only "
    "the slowest stage": lambda t, B: max(t),
    "the other B - 1 micro-batches follow at the pace of the slowest stage; the sum alone is what "
    "a single micro-batch takes": lambda t, B: sum(t),
    "the first micro-batch is in the sum already: B - 1 others follow, not B":
        lambda t, B: sum(t) + B * max(t),
    "B - 1 micro-batches follow the first one, and not one alone": lambda t, B: sum(t) + max(t),
    "(B + stages - 1) × the slowest is right for equal stages. Here stages differ: the first "
    "micro-batch takes the sum": lambda t, B: (B + len(t) - 1) * max(t),
    "(B - 1) times the slowest stage is what follows the first micro-batch, which takes the mean "
    "of no stage, but the sum of all": lambda t, B: sum(t) / len(t) + (B - 1) * max(t),
    "B - 1 micro-batches follow the first one, and not B - 2":
        lambda t, B: sum(t) + (B - 2) * max(t),
    "the slowest stage sets the pace, wherever it stands: this takes the last one":
        lambda t, B: sum(t) + (B - 1) * t[-1],
    "the slowest stage sets the pace, wherever it stands: this takes the first one":
        lambda t, B: sum(t) + (B - 1) * t[0],
    "the first micro-batch takes the sum, and each that follows the slowest stage's seconds: here "
    "they are exchanged": lambda t, B: (B - 1) * sum(t) + max(t),
    "micro-batches follow one another: their number counts, and not that of the stages":
        lambda t, B: sum(t) + (len(t) - 1) * max(t),
    "stages of equal seconds are no aim of their own: a step may be longer with them":
        lambda t, B: max(t) - min(t),
    "these are the plans with the longest step": lambda t, B: -sum(t) - (B - 1) * max(t),
}  # fmt: skip
NOT_OF_THE_BEST = (
    "the best plan of the rest need not be part of the best plan: a slower stage in front makes "
    "another rest better. For a given limit on the slowest stage it is"
)
NOT_BEFORE_THE_BEST = (
    "the best plan of the first layers need not be part of the best plan: a slower stage behind "
    "them makes another beginning better. For a given limit on the slowest stage it is"
)
LENGTHS = {
    "this has the fewest stages; more of them may be faster": min,
    "this has the most stages; fewer of them may be faster": max,
}
