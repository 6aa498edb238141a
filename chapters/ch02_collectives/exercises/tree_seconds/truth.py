"""The right results, and the results of known mistakes."""

from math import ceil, floor, log, log2

from coursekit.kit.message_costs import rounds_of_tree

from .cases import MEGABYTES, SPEED


def truth(n, mb, speed):
    return rounds_of_tree(n) * mb / speed


MISTAKES = [
    ("this is one after another: in a tree, those who have it help.",
     lambda n, mb, speed: (n - 1) * mb / speed),
    ("a part of a round takes a whole one: log2(5) is 2.3, and 5 computers need 3 rounds.",
     lambda n, mb, speed: log2(n) * mb / speed),
    ("what is left over after the last full round needs one more: round up.",
     lambda n, mb, speed: floor(log2(n)) * mb / speed),
    ("too few rounds for many computers: those who have it double, so log2 counts them. "
     "math.log alone is the natural logarithm.",
     lambda n, mb, speed: ceil(log(n)) * mb / speed),
    ("it is the rounds that are rounded up: the seconds of a copy may well be a fraction.",
     lambda n, mb, speed: ceil(log2(n) * mb / speed)),
    ("one round too many where n is a power of two: 8 computers need 3 rounds.",
     lambda n, mb, speed: n.bit_length() * mb / speed),
    ("one computer alone has the file already: that takes no round. For more of them it is "
     "right.", lambda n, mb, speed: max(1, (n - 1).bit_length()) * mb / speed),
    ("the sender counts as well: n computers have the file in the end.",
     lambda n, mb, speed: ceil(log2(max(n - 1, 1))) * mb / speed),
    ("this counts rounds; each of them takes megabytes / megabytes_per_second.",
     lambda n, mb, speed: ceil(log2(n))),
    ("a faster link makes it shorter: divide by the speed.",
     lambda n, mb, speed: ceil(log2(n)) * mb * speed),
    ("the number of those who have it doubles in each round; it does not grow by two.",
     lambda n, mb, speed: n / 2 * mb / speed),
    ("these are two rounds for each doubling: in one round, all who have the file give a copy.",
     lambda n, mb, speed: 2 * floor(log2(n)) * mb / speed),
    *((f"8 times too {how}, whatever n is: both are in megabytes already, and nothing in bits.",
       lambda n, mb, speed, factor=factor: factor * ceil(log2(n)) * mb / speed)
      for how, factor in (("long", 8), ("short", 1 / 8))),
    ("// cuts the fraction off; / keeps it.",
     lambda n, mb, speed: ceil(log2(n)) * (mb // speed)),
    ("a number of an example is written in: the time grows with the megabytes, and shrinks "
     "with the speed of a link.",
     lambda n, mb, speed: ceil(log2(n)) * MEGABYTES / SPEED),
    ("the megabytes are not used: a file of twice the size takes twice the time.",
     lambda n, mb, speed: ceil(log2(n)) * MEGABYTES / speed),
    ("the speed is not used: on a link of half the speed it takes twice the time.",
     lambda n, mb, speed: ceil(log2(n)) * mb / SPEED),
    ("each round takes that long, and there are several.", lambda n, mb, speed: mb / speed),
]  # fmt: skip
