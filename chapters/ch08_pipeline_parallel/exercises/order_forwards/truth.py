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


def groups_between(ends, chunks):
    return [(i, c) for a, b in pairwise(ends) for c in range(chunks) for i in range(a, b)]


def balance_the_ends(m, chunks, size):
    """Return balanced groups whose ends are rounded down, so that smaller ones come first."""
    count = -(-m // size)
    return groups_between([k * m // count for k in range(count + 1)], chunks)


def count_groups(m, chunks, size):
    return truth(m, chunks, -(-m // size))


def join_the_rest(m, chunks, size):
    """Return groups whose last one also has what is left."""
    count = max(1, m // size)
    return groups_between([*(k * size for k in range(count)), m], chunks)


def end_too_early(m, chunks, size):
    """Return the groups that begin before the last micro-batch, as in range(0, m - 1, size)."""
    starts = list(range(0, m - 1, size))
    return [(i, c) for i, c in truth(m, chunks, size) if i // size < len(starts)]


def go_back_and_forth(m, chunks, size):
    return [(i, chunks - 1 - c if i // size % 2 else c) for i, c in truth(m, chunks, size)]


MISTAKES = [
    ("the last group has only the micro-batches that are left: some that do not exist go forward "
     "here", keep_whole_groups),
    ("the micro-batches of the last group are left out: it is a group, too, with fewer of them",
     drop_the_rest),
    ("the micro-batches of the last group go through all chunks one by one: they are a group like "
     "the others, and go through chunk 0 together first", append_the_rest),
    ("the groups are balanced, so that they differ by one at most. Here every group but the last "
     "has `size` micro-batches", balance_groups),
    ("the groups are balanced, so that they differ by one at most. Here every group but the last "
     "has `size` micro-batches", balance_the_ends),
    ("`size` is taken as the number of groups: `size` is how many micro-batches a group has",
     count_groups),
    ("what is left joins the last whole group: what is left is a group of its own",
     join_the_rest),
    ("a last group of a single micro-batch is left out: the last group may begin with the last "
     "micro-batch", end_too_early),
    ("every second group goes through the chunks backwards: every group goes through chunk 0 first",
     go_back_and_forth),
    ("there are always two chunks here: there are `chunks` of them",
     lambda m, chunks, size: truth(m, 2, size)),
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
