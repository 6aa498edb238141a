"""The right results, and the results of known mistakes."""


def owners(length, ranks) -> list[tuple[int, int]]:
    """Return, for each number, the rank that has it and its place there."""
    each = -(-length // ranks)
    return [divmod(number, each) for number in range(length)]


def numbers_of(length, ranks, rank) -> list[int]:
    return [number for number, (owner, _) in enumerate(owners(length, ranks)) if owner == rank]


def merge_neighbours(found) -> list[tuple[int, int, int]]:
    """Merge the (owner, place) of each number into pieces of neighbours."""
    pieces = []
    for owner, place in found:
        if pieces and pieces[-1][0] == owner and pieces[-1][2] == place:
            pieces[-1] = owner, pieces[-1][1], place + 1
        else:
            pieces.append((owner, place, place + 1))
    return pieces


def truth(length, old, new, rank):
    old_places = owners(length, old)
    return merge_neighbours([old_places[number] for number in numbers_of(length, new, rank)])


def use_global_places(length, old, new, rank):
    each = -(-length // old)
    return [(k, a + k * each, b + k * each) for k, a, b in truth(length, old, new, rank)]


def use_new_places(length, old, new, rank):
    pieces, at = [], 0
    for k, a, b in truth(length, old, new, rank):
        pieces.append((k, at, at + b - a))
        at += b - a
    return pieces


def last_included(length, old, new, rank):
    return [(k, a, b - 1) for k, a, b in truth(length, old, new, rank)]


def return_lengths(length, old, new, rank):
    return [(k, a, b - a) for k, a, b in truth(length, old, new, rank)]


def round_down(length, old, new, rank):
    old_each, new_each = length // old, length // new
    first, last = rank * new_each, (rank + 1) * new_each
    return overlaps(first, last, old, old_each)


def overlaps(first, last, old, old_each):
    pieces = []
    for k in range(old):
        begin, end = max(first, k * old_each), min(last, (k + 1) * old_each)
        if begin < end:
            pieces.append((k, begin - k * old_each, end - k * old_each))
    return pieces


def include_padding(length, old, new, rank):
    old_each, new_each = -(-length // old), -(-length // new)
    return overlaps(rank * new_each, (rank + 1) * new_each, old, old_each)


def include_empty(length, old, new, rank):
    pieces = {k: (k, a, b) for k, a, b in truth(length, old, new, rank)}
    return [pieces.get(k, (k, 0, 0)) for k in range(old)]


def only_the_first(length, old, new, rank):
    return truth(length, old, new, rank)[:1]


def whole_shards(length, old, new, rank):
    each = -(-length // old)
    return [(k, 0, min(each, length - k * each)) for k, _, _ in truth(length, old, new, rank)]


def split_like_tensor_split(length, old, new, rank):
    """Return the pieces of shards cut by tensor_split, of which the first are longer by one."""

    def bounds(ranks):
        sizes = [length // ranks + (k < length % ranks) for k in range(ranks)]
        return [(sum(sizes[:k]), sum(sizes[: k + 1])) for k in range(ranks)]

    first, last = bounds(new)[rank]
    found = [(k, max(first, a) - a, min(last, b) - a) for k, (a, b) in enumerate(bounds(old))]
    return [(k, a, b) for k, a, b in found if a < b]


def read_own_shard(length, old, new, rank):
    each = -(-length // new)
    return [(rank, 0, max(0, min(each, length - rank * each)))]


def roles_changed(length, old, new, rank):
    return truth(length, new, old, rank) if rank < old else []


def deal_shards(length, old, new, rank):
    each = -(-length // old)
    return [(k, 0, min(each, length - k * each)) for k in range(rank, old, new)
            if k * each < length]  # fmt: skip


MISTAKES = [
    ("these places count within the whole tensor. Asked are places within the old shard: from "
     "its own first number, which is 0.", use_global_places),
    ("these places count within the new shard. Asked is where the numbers lie in the old ones.",
     use_new_places),
    ("the end is the place after the last number, as in a slice: x[begin:end] has "
     "end - begin numbers.", last_included),
    ("the last of the three is where the piece ends, not how long it is.", return_lengths),
    ("a shard has ceil(length / ranks) numbers: -(-length // ranks). Rounded down, the last "
     "numbers belong to nobody.", round_down),
    ("behind the last number there is only padding, which nobody has saved: no piece goes "
     "beyond `length`.", include_padding),
    ("a piece without numbers is left out.", include_empty),
    ("a new shard may lie across several old ones: these are further pieces.", only_the_first),
    ("of an old shard only a part may be needed: what belongs to other ranks is left out.",
     whole_shards),
    ("these shards are as equal as can be, as tensor_split cuts. Here all have "
     "ceil(length / ranks) numbers, as long as there are any.", split_like_tensor_split),
    ("that is the shard of the same number. With another number of ranks, the same numbers lie "
     "elsewhere.", read_own_shard),
    ("`old` ranks have saved, and this is one of the `new` ones: here it is the other way "
     "round.", roles_changed),
    ("a rank does not take whole old shards in turn: it takes ceil(length / new) numbers that "
     "are neighbours.", deal_shards),
]  # fmt: skip
