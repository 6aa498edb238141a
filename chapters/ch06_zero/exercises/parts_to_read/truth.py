"""The right results, and the results of known mistakes."""


def truth(length, before, now, rank):
    """Return the right parts, found number by number."""
    old, new = -(-length // before), -(-length // now)
    parts = []
    for number in range(length):
        if number // new != rank:
            continue
        file, place = divmod(number, old)
        if parts and parts[-1][0] == file:
            parts[-1] = (file, parts[-1][1], place + 1)
        else:
            parts.append((file, place, place + 1))
    return parts


def cut(length, n, k):
    """Return begin and end of part k, with other code than the solution."""
    each = (length + n - 1) // n
    return min(k * each, length), min(k * each + each, length)


def floor_parts(length, before, now, rank):
    """Return the parts to read if new parts are cut by a division that is rounded down."""
    each = length // now
    inside = range(rank * each, (rank + 1) * each)
    return group_parts([divmod(number, -(-length // before)) for number in inside])


def old_floored(length, before, now, rank):
    inside = range(*cut(length, now, rank))
    each = max(1, length // before)
    return group_parts([divmod(number, each) for number in inside])


def group_parts(places):
    parts = []
    for file, place in places:
        if parts and parts[-1][0] == file:
            parts[-1] = (file, parts[-1][1], place + 1)
        else:
            parts.append((file, place, place + 1))
    return parts


def balance_parts(length, before, now, rank):
    each, more = divmod(length, now)
    begin = rank * each + min(rank, more)
    inside = range(begin, begin + each + (rank < more))
    return group_parts([divmod(number, -(-length // before)) for number in inside])


def use_global_positions(length, before, now, rank):
    """Return the parts with positions in the whole tensor."""
    old = -(-length // before)
    return [(f, f * old + a, f * old + b) for f, a, b in truth(length, before, now, rank)]


def read_padding(length, before, now, rank):
    old, new = -(-length // before), -(-length // now)
    return group_parts(
        [divmod(k, old) for k in range(rank * new, rank * new + new) if k < before * old]
    )


def include_empty_parts(length, before, now, rank):
    found = {part[0]: part for part in truth(length, before, now, rank)}
    return [found.get(file, (file, 0, 0)) for file in range(before)]


def whole_files(length, before, now, rank):
    old = -(-length // before)
    files = [part[0] for part in truth(length, before, now, rank)]
    return [(f, 0, min(old, length - f * old)) for f in files]


def swap_counts(length, before, now, rank):
    return truth(length, now, before, rank) if rank < before else []


MISTAKES = [
    ("start and end count from the beginning of the whole tensor. They have to count from the "
     "beginning of the file", use_global_positions),
    ("(file, start, length): the third number is the end, as in a slice",
     lambda *call: [(f, a, b - a) for f, a, b in truth(*call)]),
    ("the end is one too small: it is the first number that is not read, as in a slice",
     lambda *call: [(f, a, b - 1) for f, a, b in truth(*call)]),
    ("the whole files are read in which something lies. Read only what this rank needs",
     whole_files),
    ("the new parts are cut by a division that is rounded down. The last numbers belong to "
     "nobody: parts have ceil(length / now) numbers", floor_parts),
    ("the old parts are counted by a division that is rounded down. They have ceil(length / "
     "before) numbers", old_floored),
    ("padding is read, where the last file ends earlier. It is not in the files", read_padding),
    ("files from which nothing is needed are in the list, with an empty part. Leave them out",
     include_empty_parts),
    ("before and now are exchanged: files are of the ranks before, and the part is of a rank "
     "now", swap_counts),
    ("only the first file is read. A new part may lie in several files",
     lambda *call: truth(*call)[:1]),
    ("each rank reads the file of its own number. The parts are others now",
     lambda length, before, now, rank: [(rank, 0, cut(length, before, rank)[1]
                                         - cut(length, before, rank)[0])]
     if rank < before and cut(length, before, rank)[0] < length else []),
    ("numbers that follow each other in a file are one read: (file, start, end), and not a "
     "read for each number",
     lambda *call: [(f, i, i + 1) for f, a, b in truth(*call) for i in range(a, b)]),
    ("files are counted from 0", lambda *call: [(f + 1, a, b) for f, a, b in truth(*call)]),
    ("numbers in a file are counted from 0",
     lambda *call: [(f, a + 1, b + 1) for f, a, b in truth(*call)]),
    ("numbers are dealt out in turn here, like cards. A part is a piece of the tensor, from "
     "one end to the other",
     lambda length, before, now, rank: [(i % before, i // before, i // before + 1)
                                        for i in range(length) if i % now == rank]),
    ("the parts are balanced, so that they differ by one at most. Here every part has "
     "ceil(length / now) numbers, and only the last ones have fewer", balance_parts),
    ("only the first and the last file are read: there may be files in between",
     lambda *call: [*truth(*call)[:1], *truth(*call)[1:][-1:]]),
    ("this is one triple alone: return a list of triples, of one or none as well",
     lambda *call: next(iter(truth(*call)), None)),
    ("the order is turned round: numbers have to come in the order of the tensor",
     lambda *call: truth(*call)[::-1]),
]  # fmt: skip
