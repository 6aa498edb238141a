"""The right results, and the results of known mistakes."""


def count_bytes(context, n, heads, size, way) -> int:
    """Return the bytes of scores, queries, keys and values on a rank, in float32."""
    if way == "one process":
        return 4 * heads * (context * context + 3 * context * size)
    piece = context // n
    if way == "all keys":
        return 4 * heads * (piece * context + (piece + 2 * context) * size)
    if way == "by heads":
        return 4 * (heads // n) * (context * context + 3 * context * size)
    return 4 * heads * (piece * piece + 3 * piece * size)


def truth(budget, n, heads, size, way):
    """Return the longest context that fits, found by trying multiples of the number of ranks."""
    context = 0
    while count_bytes(context + n, n, heads, size, way) <= budget:
        context += n
    return context


def replace_byte_count(change):
    """Return the truth if `change` gave the bytes that are needed."""

    def guess(budget, n, heads, size, way):
        context = 0
        while change(context + n, n, heads, size, way) <= budget:
            context += n
        return context

    return guess


def omit_scores(context, n, heads, size, way):
    own = count_bytes(context, n, heads, size, way)
    return own - scores(context, n, heads, way)


def scores(context, n, heads, way):
    piece = context // n
    if way == "ring":
        return 4 * heads * piece * piece
    return 4 * heads * context * (context if way == "one process" else piece)


def scores_alone(context, n, heads, size, way):
    return scores(context, n, heads, way)


def ring_with_all_scores(context, n, heads, size, way):
    more = 4 * heads * (context // n) * (context - context // n) * (way == "ring")
    return count_bytes(context, n, heads, size, way) + more


def own_keys_alone(context, n, heads, size, way):
    less = 2 * 4 * heads * (context - context // n) * size * (way == "all keys")
    return count_bytes(context, n, heads, size, way) - less


def keys_and_values_once(context, n, heads, size, way):
    return count_bytes(context, n, heads, size, way) - 4 * size * {
        "one process": heads * context, "all keys": heads * context,
        "by heads": heads // n * context, "ring": heads * (context // n),
    }[way]  # fmt: skip


def not_all_of_it(budget, n, heads, size, way):
    return truth(budget - 1, n, heads, size, way)


def all_heads(context, n, heads, size, way):
    return count_bytes(context, n, heads, size, "one process" if way == "by heads" else way)


def count_numbers(context, n, heads, size, way):
    return count_bytes(context, n, heads, size, way) // 4


def divide_whole_context(context, n, heads, size, way):
    """Return the bytes as if one process had the memory of all ranks."""
    return count_bytes(context, n, heads, size, "one process") / n


def piece_of_rank(budget, n, heads, size, way):
    return truth(budget, n, heads, size, way) // (1 if way == "one process" else n)


def one_more(budget, n, heads, size, way):
    return truth(budget, n, heads, size, way) + n


def no_multiple(budget, n, heads, size, way):
    if way == "one process":
        return truth(budget, n, heads, size, way)
    return truth(budget, n, heads, size, way) + n - 1


MISTAKES = [
    ("the scores are missing: a number for each pair of query and key, and each head",
     replace_byte_count(omit_scores)),
    ("queries, keys and values take room as well", replace_byte_count(scores_alone)),
    ("in a ring a rank holds the scores of one block at a time: its queries, and one piece of "
     "keys", replace_byte_count(ring_with_all_scores)),
    ("keys and values are two tensors, and each of them takes that room",
     replace_byte_count(keys_and_values_once)),
    ("what needs all of the budget still fits: <=", not_all_of_it),
    ("with all keys, a rank holds the keys and values of the whole context",
     replace_byte_count(own_keys_alone)),
    ("by heads, a rank has a share of the heads: heads / n of them", replace_byte_count(all_heads)),
    ("a number in float32 has 4 bytes", replace_byte_count(count_numbers)),
    ("the memory of all ranks together is not one memory: each holds what its way needs",
     replace_byte_count(divide_whole_context)),
    ("this is the piece of one rank; asked is the whole context", piece_of_rank),
    ("this is one multiple too much: it does not fit any more", one_more),
    ("the context is a multiple of the number of ranks", no_multiple),
]  # fmt: skip
