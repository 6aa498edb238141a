"""The right results, and the results of known mistakes."""

from math import ceil, floor, log2

from coursekit.kit.message_costs import rounds_of_tree, steps_round_ring


def messages(how, n) -> int:
    """Return the number of successive messages until all is summed and every rank has the sum."""
    return 2 * (steps_round_ring(n) if how == "ring" else rounds_of_tree(n))


def size(how, n, x) -> float:
    return x / n if how == "ring" else x


def seconds(how, n, x, alpha, B) -> float:
    return messages(how, n) * (alpha + size(how, n, x) / B)


def replace_tree_rounds(rounds):
    """Return a wrong function in which both trees together have `rounds(n)` rounds."""
    return lambda how, n, x, alpha, B: (
        seconds(how, n, x, alpha, B) if how == "ring" else rounds(n) * (alpha + x / B)
    )


MISTAKES = [
    ("the latency is missing: each message costs one, however short it is.",
     lambda how, n, x, alpha, B: seconds(how, n, x, 0, B)),
    *((f"the latency is counted only {count}: each message that follows another one costs it.",
       lambda how, n, x, alpha, B, times=times, ways=ways: (
           (times if how in ways else messages(how, n)) * alpha + seconds(how, n, x, 0, B)))
      for times, count in ((1, "once"), (2, "twice, once for each half"))
      for ways in (("ring",), ("tree",), ("ring", "tree"))),
    *(("count the messages that follow each other, not the ranks: each costs a latency.",
       lambda how, n, x, alpha, B, fewer=fewer: (
           (n - fewer) * alpha + seconds(how, n, x, 0, B) if how == "ring"
           else seconds(how, n, x, alpha, B)))
      for fewer in (0, 1)),
    ("the latency and the time of the bytes are both spent, one after the other: add them.",
     lambda how, n, x, alpha, B: messages(how, n) * max(alpha, size(how, n, x) / B)),
    ("a rank can send and receive at the same time: the message that goes and the one that "
     "comes are one step.",
     lambda how, n, x, alpha, B: 2 * seconds(how, n, x, alpha, B)),
    ("asked are seconds.", lambda how, n, x, alpha, B: 1000 * seconds(how, n, x, alpha, B)),
    ("X and B both count bytes: bits are nowhere asked for.",
     lambda how, n, x, alpha, B: seconds(how, n, 8 * x, alpha, B)),
    ("only the bytes are cut into n chunks; each message still costs a whole latency.",
     lambda how, n, x, alpha, B: seconds(how, n, x, alpha / n if how == "ring" else alpha, B)),
    ("`how` is \"ring\" or \"tree\", in small letters: here the ring gets the tree's time.",
     lambda how, n, x, alpha, B: seconds("tree", n, x, alpha, B)),
    ("every message takes time for its bytes, not only one of them.",
     lambda how, n, x, alpha, B: messages(how, n) * alpha + size(how, n, x) / B),
    ("this is one way only: a sum has to be built, and then brought to everybody.",
     lambda how, n, x, alpha, B: seconds(how, n, x, alpha, B) / 2),
    *(("in one of the two algorithms the second half is missing. After the first half, one "
       "rank alone has the sum, or each has one chunk of it.",
       lambda how, n, x, alpha, B, one=one: (
           seconds(how, n, x, alpha, B) / (2 if how == one else 1)))
      for one in ("ring", "tree")),
    ("ring and tree have changed places.",
     lambda how, n, x, alpha, B: seconds("tree" if how == "ring" else "ring", n, x, alpha, B)),
    ("in a ring a message is a chunk of X / n, not all of X.",
     lambda how, n, x, alpha, B: messages(how, n) * (alpha + x / B)),
    ("in a tree every message is the whole X.",
     lambda how, n, x, alpha, B: messages(how, n) * (alpha + x / n / B)),
    *(("the latency of the tree is right, its bytes are too few: each of its messages is the "
       "whole X, none is a part of it.",
       lambda how, n, x, alpha, B, first=first: seconds(how, n, x, alpha, B) if how == "ring"
       else 2 * sum(alpha + x / 2 ** (first + k) / B for k in range(rounds_of_tree(n))))
      for first in (0, 1)),
    ("// cuts the fraction off; / keeps it.",
     lambda how, n, x, alpha, B: messages(how, n) * (alpha + size(how, n, x) // 1 / B)),
    ("a ring has n - 1 steps in each half, not n.",
     lambda how, n, x, alpha, B: seconds(how, n, x, alpha, B) / max(1, messages(how, n))
     * (2 * n if how == "ring" else messages(how, n))),
    ("a tree needs only as many rounds as the number of ranks can be halved: ceil(log2 n).",
     lambda how, n, x, alpha, B: 2 * (n - 1) * (alpha + size(how, n, x) / B)),
    ("a tree of n ranks has ceil(log2 n) rounds each way, not n.",
     lambda how, n, x, alpha, B: (2 * n if how == "tree" else 2 * (n - 1))
     * (alpha + size(how, n, x) / B)),
    ("a part of a round takes a whole one: round log2(n) up.",
     replace_tree_rounds(lambda n: 2 * log2(n))),
    ("the broadcast begins when the sum is there: no round of it falls together with one of "
     "the reduce.", replace_tree_rounds(lambda n: 2 * rounds_of_tree(n) - 1)),
    ("in each round of a tree twice as many take part: with 65 ranks it has 7 rounds each way, "
     "the logarithm to base 2, rounded up.", replace_tree_rounds(lambda n: 2 * ceil(n**0.5))),
    ("what is left over after the last full round needs one more: round log2(n) up, however "
     "little it is.", replace_tree_rounds(lambda n: 2 * round(log2(n) + 0.3))),
    ("what is left over after the last full round needs one more: round log2(n) up.",
     replace_tree_rounds(lambda n: 2 * floor(log2(n)))),
    ("the two trees are rounded up together; the second begins when the first is done, so each "
     "of them takes whole rounds.", replace_tree_rounds(lambda n: ceil(2 * log2(n)))),
    ("one round too many each way where n is a power of two: 8 ranks need 3.",
     replace_tree_rounds(lambda n: 2 * n.bit_length())),
    ("B is bytes per second: divide by it.",
     lambda how, n, x, alpha, B: seconds(how, n, x, alpha, 1 / B)),
]  # fmt: skip
