"""The right results, and the results of known mistakes."""

from math import sqrt


def truth(saving, failure):
    return (2 * saving * failure) ** 0.5


MISTAKES = [
    ("a failure loses half a period on average, not a whole one: the 2 of that belongs under "
     "the root.", lambda saving, failure: sqrt(saving * failure)),
    ("the root is missing: saving / period = period / (2 × failure) is solved by a square.",
     lambda saving, failure: 2 * saving * failure),
    ("the 2 belongs under the root.", lambda saving, failure: 2 * sqrt(saving * failure)),
    ("that is half a period: what a failure loses on average.",
     lambda saving, failure: sqrt(saving * failure / 2)),
    ("a failure loses half a period: the cost is saving / period + period / (2 × failure). "
     "With the 2 on the other side, its place is above the line, under the root.",
     lambda saving, failure: sqrt(saving * failure) / 2),
    ("that is the share of time that is lost, at the best period. Asked is the period.",
     lambda saving, failure: sqrt(2 * saving / failure)),
    ("that is the saving's share of the time, at the best period. Asked is the period.",
     lambda saving, failure: sqrt(saving / (2 * failure))),
    ("that is the work between two savings. Asked is the period, from the beginning of one "
     "saving to that of the next: the saving belongs to it.",
     lambda saving, failure: sqrt(2 * saving * failure) - saving),
    ("that is the work, and two savings. A period begins with the beginning of a saving, and "
     "ends with that of the next.",
     lambda saving, failure: sqrt(2 * saving * failure) + saving),
    ("that is how many savings there are from one failure to the next. Asked is how long one "
     "period takes.", lambda saving, failure: failure / sqrt(2 * saving * failure)),
    ("that is the time from one failure to the next: each would lose half of it.",
     lambda saving, failure: failure),
    ("that is how many savings fit into the time between failures.",
     lambda saving, failure: failure / saving),
]  # fmt: skip
