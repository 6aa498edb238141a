"""The right results, and the results of known mistakes."""

import math

from ..shared.slots import slots_of
from .cases import ANY


def right(p, m) -> list[float]:
    slots = slots_of(p, m)
    return [1 - m / slots, slots / m - 1]


def wrong_are(sentence, shares=(), ideals=()) -> list:
    """Return mistakes in one of the two numbers, each with the same sentence.

    shares, ideals  wrong formulas for either number, of i idle turns, p stages, m micro-batches
    """
    functions = [lambda p, m, f=f: [f(p - 1, p, m), ANY] for f in shares]
    functions += [lambda p, m, f=f: [right(p, m)[0], f(p - 1, p, m)] for f in ideals]
    return [(sentence, function) for function in functions]


MISTAKES = [
    ("the two are swapped: first the share of the whole, which is never more than 1",
     lambda p, m: right(p, m)[::-1]),
    *wrong_are("this is idle time over the ideal, the second number. A share of the whole is "
               "divided by all the time, idle or not", [lambda i, p, m: i / m]),
    *wrong_are("this is the share of the whole once more. Over the ideal: idle time for each "
               "second of work, so it is divided by the work alone",
               ideals=[lambda i, p, m: i / (m + i)]),
    *wrong_are("stages counted where their number less one is meant: the last stage waits for "
               "all others, but not for itself. Each rank is idle for stages - 1 turns",
               [lambda i, p, m: p / (m + p), lambda i, p, m: p / (m + i)],
               [lambda i, p, m: p / m]),
    *wrong_are("the whole takes microbatches + stages - 1 turns: work and idle time together",
               [lambda i, p, m: i / (m + p)]),
    *wrong_are("each rank is idle for stages - 1 turns of a forward, and for as many of a "
               "backward. But it works for microbatches turns of each, too: the 2 is above "
               "and below",
               [lambda i, p, m: 2 * i / (m + 2 * i), lambda i, p, m: 2 * i / (m + i)],
               [lambda i, p, m: 2 * i / m]),
    *wrong_are("a turn is a forward and a backward, 3 times as long as the forward alone. Each "
               "rank is idle for stages - 1 of them and works for microbatches of them: the 3 "
               "is above and below",
               [lambda i, p, m: 3 * i / (m + 3 * i), lambda i, p, m: 3 * i / (m + i)],
               [lambda i, p, m: 3 * i / m]),
    *wrong_are("this is how much of the time the ranks are busy; asked is how much they are "
               "idle", [lambda i, p, m: m / (m + i)]),
    *wrong_are("this is how many times as long as the ideal it takes; asked is what comes on "
               "top of it: 1 less", ideals=[lambda i, p, m: (m + i) / m]),
    *wrong_are("the idle time is divided by the number of stages. It is to be divided by a "
               "rank's work, one turn for each micro-batch", ideals=[lambda i, p, m: i / p]),
    ("the last stage waits for all stages before it, however few micro-batches there are: each "
     "rank is idle for stages - 1 turns, not for microbatches - 1 if these are fewer",
     lambda p, m: right(min(p, m), m)),
    *wrong_are("this is the number of idle turns; asked is a share: divide it by all the time",
               [lambda i, p, m: i]),
    *wrong_are("each rank is idle for stages - 1 turns: the first one waits at the end, the "
               "last one at the beginning, and the others at both. It is no mean of these",
               [lambda i, p, m: i / 2 / (m + i / 2)]),
    # The first case shows this mistake. A 0 in a later case has another cause.
    *wrong_are("// cuts off what comes after the point: divide with /",
               [lambda i, p, m: i // (m + i) if i < m else math.nan],
               [lambda i, p, m: i // m if i < m else math.nan]),
    *wrong_are("the idle time of all ranks is divided by the time of one: count both for all "
               "ranks, or both for one",
               [lambda i, p, m: p * i / (m + i)], [lambda i, p, m: p * i / m]),
    *wrong_are("upside down: idle time is divided by work",
               ideals=[lambda i, p, m: m / i if i else 0]),
    *wrong_are("as if only one stage worked at a time, without a pipeline: here they overlap",
               [lambda i, p, m: i / p], [lambda i, p, m: i]),
]  # fmt: skip
