"""The right results, and the results of known mistakes."""


def right(k, ranks, chunks, kind="F"):
    """Return turn k of a list in which each group goes through all chunks before the next one."""
    through = range(chunks) if kind == "F" else range(chunks - 1, -1, -1)
    groups = (range(begin, begin + ranks) for begin in range(0, k + 1, ranks))
    return [(kind, i, chunk) for group in groups for chunk in through for i in group][k]


def wrong(function):
    """Return a wrong answer; function(k, ranks, chunks, is_back) gives (micro-batch, chunk)."""

    def answer(k, ranks, chunks, kind="F"):
        return kind, *function(k, ranks, chunks, kind == "B")

    return answer


def locate_in_group(k, ranks, chunks):
    """Return (micro-batches in the groups before, k's chunk and micro-batch within its group)."""
    rest = k % (ranks * chunks)
    return k // (ranks * chunks) * ranks, rest // ranks, rest % ranks


def turn_chunk(chunk, chunks, is_back):
    return chunks - 1 - chunk if is_back else chunk


def keep_chunk_order(k, ranks, chunks, is_back):
    before, chunk, i = locate_in_group(k, ranks, chunks)
    return before + i, chunk


def backwards_reversed(k, ranks, chunks, is_back, and_chunks=True):
    before, chunk, i = locate_in_group(k, ranks, chunks)
    return before + turn_chunk(i, ranks, is_back), turn_chunk(chunk, chunks, is_back and and_chunks)


def assume_two_chunks(k, ranks, chunks, is_back):
    before, chunk, i = locate_in_group(k, ranks, chunks)
    return before + i, 1 - chunk if is_back else chunk


def stage_of_the_model(k, ranks, chunks, is_back):
    before, chunk, i = locate_in_group(k, ranks, chunks)
    return before + i, turn_chunk(chunk, chunks, is_back) * ranks


MISTAKES = [
    (
        "the backwards take the chunks in the order of the forwards. What went through the last "
        "chunk last can go back there first: chunks - 1 - chunk",
        wrong(keep_chunk_order),
    ),
    (
        "only the chunks are the other way round: within a group, micro-batches go back in order, "
        "as they went forward",
        wrong(backwards_reversed),
    ),
    (
        "within a group, micro-batches go back in order, 0 first; the other way round are the "
        "chunks",
        wrong(lambda *k: backwards_reversed(*k, and_chunks=False)),
    ),
    (
        "with two chunks it is right: 1 - chunk, or what does the same, is the other way round "
        "for two alone",
        wrong(assume_two_chunks),
    ),
    (
        "the micro-batches of the second group have the numbers of the first: what is missing is "
        "`ranks` for each group that has gone before",
        wrong(
            lambda k, ranks, chunks, back: (
                k % ranks,
                turn_chunk(k // ranks % chunks, chunks, back),
            )
        ),
    ),
    (
        "the second group begins with micro-batch 1: it begins where the first one ends, after as "
        "many as there are ranks",
        wrong(
            lambda k, ranks, chunks, back: (
                k // (ranks * chunks) + k % ranks,
                turn_chunk(k // ranks % chunks, chunks, back),
            )
        ),
    ),
    (
        "each micro-batch goes through all chunks before the next one: then a rank would wait for "
        "it to come round. A whole group, one for each rank, goes through the first chunk first",
        wrong(lambda k, ranks, chunks, back: (k // chunks, turn_chunk(k % chunks, chunks, back))),
    ),
    (
        "the chunk changes with each action: k % chunks. A whole group, one for each rank, goes "
        "through a chunk before the next one",
        wrong(
            lambda k, ranks, chunks, back: (
                locate_in_group(k, ranks, chunks)[0] + k % ranks,
                turn_chunk(k % chunks, chunks, back),
            )
        ),
    ),
    (
        "the chunk is counted on beyond the last one: it begins anew with each group",
        wrong(
            lambda k, ranks, chunks, back: (
                locate_in_group(k, ranks, chunks)[0] + k % ranks,
                turn_chunk(k // ranks, chunks, back),
            )
        ),
    ),
    (
        "a group has as many micro-batches as there are ranks. It takes ranks * chunks turns, but "
        "the next one begins only `ranks` micro-batches later",
        wrong(
            lambda k, ranks, chunks, back: (
                k // (ranks * chunks) * ranks * chunks + k % ranks,
                turn_chunk(k // ranks % chunks, chunks, back),
            )
        ),
    ),
    (
        "this is how far k has come: with several chunks, a micro-batch has more than one turn",
        wrong(lambda k, ranks, chunks, back: (k, turn_chunk(k // ranks % chunks, chunks, back))),
    ),
    (
        "ranks and chunks are mixed up: a group has as many micro-batches as there are ranks",
        wrong(
            lambda k, ranks, chunks, back: (
                k // (ranks * chunks) * chunks + k % chunks,
                turn_chunk(k // chunks % ranks, ranks, back),
            )
        ),
    ),
    (
        "this is the stage of the model; a chunk counts the pieces of one rank: 0, 1, …",
        wrong(stage_of_the_model),
    ),
    (
        "the kind of the action is the argument `kind`; forwards are only the default",
        lambda k, ranks, chunks, kind="F": ("F", *right(k, ranks, chunks, kind)[1:]),
    ),
    (
        "micro-batch and chunk are in each other's place: Action(kind, microbatch, chunk)",
        lambda k, ranks, chunks, kind="F": (kind, *right(k, ranks, chunks, kind)[:0:-1]),
    ),
    (
        "as if there were always 2 ranks and 2 chunks, as in an example",
        lambda k, ranks, chunks, kind="F": right(k, 2, 2, kind),
    ),
    ("asked is one action: `return`, not `yield`", lambda *turn: iter([right(*turn)])),
]
