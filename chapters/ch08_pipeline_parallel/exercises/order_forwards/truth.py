"""The right order, and the orders of known mistakes."""

from itertools import pairwise


def truth(microbatches, chunks, size):
    """Return all pairs, sorted by group, then by chunk, then by micro-batch."""
    pairs = [(i, chunk) for i in range(microbatches) for chunk in range(chunks)]
    return sorted(pairs, key=lambda pair: (pair[0] // size, pair[1], pair[0]))


def keep_whole_groups(m, chunks, size):
    return truth(-(-m // size) * size, chunks, size)


def drop_the_rest(m, chunks, size):
    return truth(m // size * size, chunks, size)


def append_the_rest(m, chunks, size):
    """Return whole groups, and then each micro-batch that is left through all chunks by itself."""
    whole = m // size * size
    return truth(whole, chunks, size) + [(i, c) for i in range(whole, m) for c in range(chunks)]


def balance_groups(m, chunks, size):
    """Return groups whose sizes differ by one at most, as many as there are."""
    count = -(-m // size)
    each, more = divmod(m, count)
    ends = [k * each + min(k, more) for k in range(count + 1)]
    return [(i, c) for a, b in pairwise(ends) for c in range(chunks) for i in range(a, b)]


def put_the_rest_first(m, chunks, size):
    first = m % size or size
    rest = [(i + first, c) for i, c in truth(max(m - first, 0), chunks, size)]
    return truth(min(first, m), chunks, size) + rest


MISTAKES = [
    ("the last group has only the micro-batches that are left: some that do not exist go forward "
     "here", keep_whole_groups),
    ("the micro-batches of the last group are left out: it is a group, too, with fewer of them",
     drop_the_rest),
    ("the micro-batches of the last group go through all chunks one by one: they are a group like "
     "the others, and go through chunk 0 together first", append_the_rest),
    ("the groups are balanced, so that they differ by one at most. Here every group but the last "
     "has `size` micro-batches", balance_groups),
    ("the smaller group is the last one, and not the first", put_the_rest_first),
    ("each micro-batch goes through all chunks before the next one: this is `size` = 1. A whole "
     "group goes through chunk 0 first",
     lambda m, chunks, size: truth(m, chunks, 1)),
    ("all micro-batches go through a chunk before the next one: this is a single group, whatever "
     "`size` is", lambda m, chunks, size: truth(m, chunks, m)),
    ("within a group, forwards take the chunks in order, 0 first: this is the order of the "
     "backwards",
     lambda m, chunks, size: [(i, chunks - 1 - c) for i, c in truth(m, chunks, size)]),
    ("a group has `size` micro-batches: here it has as many as there are chunks",
     lambda m, chunks, size: truth(m, chunks, chunks)),
    ("each group begins with micro-batch 0 again: it begins where the group before has ended",
     lambda m, chunks, size: [(i % size, c) for i, c in truth(m, chunks, size)]),
    ("chunk and micro-batch are in each other's place: (micro-batch, chunk)",
     lambda m, chunks, size: [(c, i) for i, c in truth(m, chunks, size)]),
    ("the groups are a second level of lists: return one list of pairs",
     lambda m, chunks, size: [[pair for pair in truth(m, chunks, size) if pair[0] // size == g]
                              for g in range(-(-m // size))]),
    ("this is the order for one chunk: each group goes through all of them",
     lambda m, chunks, size: [pair for pair in truth(m, chunks, size) if not pair[1]]),
]  # fmt: skip
