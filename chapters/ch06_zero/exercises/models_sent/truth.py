"""The right results, and the results of known mistakes."""

GLOO = (
    "this counts a reduce-scatter as an all-reduce, as Gloo does it. The labs have a ring, which "
    "sends (n - 1)/n"
)

HALF = "this is a half: an all-reduce is a reduce-scatter and an all-gather"

ONCE = (
    "gradients add up in `.grad` until step(): however many micro-batches there are, stage 1 "
    "reduces once, and gathers once"
)

STAGE_2 = (
    "each backward reduces its gradients, because nobody keeps them whole until the step; the "
    "all-gather comes once, in the step"
)

STAGE_3 = (
    "each micro-batch gathers a unit for the forward, gathers it again for the backward, and "
    "reduces its gradients. The step gathers nothing: ranks keep shards alone"
)

ANEW = (
    "this gathers once for all micro-batches, but each backward disposes of the parameters: the "
    "next micro-batch gathers them anew"
)

# (diagnosis, the stage in which the count is wrong, the halves of an all-reduce counted there)
WRONG = [
    ("under no_sync gradients add up on the rank: only the last backward of a step sends",
     0, lambda m: 2 * m),
    (HALF, 0, lambda m: 1),
    (ONCE, 1, lambda m: 2 * m),
    (ONCE, 1, lambda m: m + 1),
    ("this is a half: gradients are reduced, and parameters gathered", 1, lambda m: 1),
    (GLOO, 1, lambda m: 3),
    (STAGE_2, 2, lambda m: 2),
    (STAGE_2, 2, lambda m: 2 * m),
    ("the step sends as well: the parameters are gathered", 2, lambda m: m),
    (GLOO, 2, lambda m: 2 * m + 1),
    (STAGE_3, 3, lambda m: 3),
    (STAGE_3, 3, lambda m: 3 * m + 1),
    (STAGE_3, 3, lambda m: 2 * m + 1),
    ("the backward gathers as well: after the forward, a unit is disposed of", 3, lambda m: 2 * m),
    (ANEW, 3, lambda m: m + 2),
    (ANEW, 3, lambda m: m + 1),
    (GLOO, 3, lambda m: 4 * m),
]  # fmt: skip


def halves(stage, m) -> int:
    """Return how many reduce-scatters and all-gathers of a model a step needs.

    A rank keeps whole what its stage does not shard: parameters up to stage 2, gradients up to
    stage 1.
    """
    count = 0
    for _ in range(m):
        count += 2 * (stage > 2)  # gathered for the forward, and for the backward
        count += stage > 1  # gradients are reduced in each backward
    count += stage < 2  # accumulated gradients are reduced
    return count + (stage < 3)  # gather gradients or new parameters


def count_models_sent(stage, n, m=1) -> float:
    return halves(stage, m) * (n - 1) / n


def wrong_in(of_stage, count):
    """Return a function that counts other halves in one stage and is right in all others."""

    def function(stage, n, m=1):
        return (count(m) if stage == of_stage else halves(stage, m)) * (n - 1) / n

    return function


MISTAKES = [
    ("this is what all ranks together send; asked is one of them",
     lambda stage, n, m=1: n * count_models_sent(stage, n, m)),
    ("in a ring a rank sends all chunks but its own: (n - 1)/n of the bytes, in a "
     "reduce-scatter as in an all-gather", lambda stage, n, m=1: halves(stage, m)),
    ("1/n of the bytes is one chunk; a reduce-scatter or an all-gather sends n - 1 of them",
     lambda stage, n, m=1: halves(stage, m) / n),
    *((sentence, wrong_in(stage, count)) for sentence, stage, count in WRONG),
]  # fmt: skip
