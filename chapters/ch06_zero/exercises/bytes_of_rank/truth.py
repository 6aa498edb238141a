"""The right results, and the results of known mistakes."""

from .cases import KINDS

USUAL = (2, 2, 12)


def states(counts, each) -> dict[str, float]:
    return {kind: count * size for kind, count, size in zip(KINDS, counts, each)}


def split_bytes(P, part, stage, each, first=(3, 2, 1)) -> dict[str, float]:
    """Return the bytes of each kind if a rank keeps `part` of the P numbers of what is split.

    first  first stage that splits each kind
    """
    return states([part if stage >= stage_of else P for stage_of in first], each)


def count_with_padding(P, n) -> int:
    """Return how many of P numbers each of n ranks gets, padding included."""
    return len(range(0, P, n))


def once_each(P, n, stage, each):
    """Return the bytes if each stage splits only one kind."""
    return states([count_with_padding(P, n) if stage == only else P for only in (3, 2, 1)], each)


def whole_bytes(P, n, stage, each):
    sizes = zip(KINDS, each, (3, 2, 1))
    return {kind: -(-size * P // n) if stage >= of else size * P for kind, size, of in sizes}


# {the indices in KINDS whose bytes parameters, gradients and optimizer_state get: diagnosis}
OTHER_BYTES = {
    (0, 0, 2): "a gradient has its own bytes, each[1]: it need not be as wide as its parameter",
    (1, 1, 2): "a parameter has its own bytes, each[0]: it need not be as wide as its gradient",
    (1, 0, 2): "the bytes are mixed up: each[0] are a parameter's, each[1] a gradient's",
}


def truth(P, n, stage, each=USUAL):
    return split_bytes(P, count_with_padding(P, n), stage, each)


MISTAKES = [
    (
        "a fraction of a number: nobody can have that. Padding makes the whole divisible by n, so "
        "a part is rounded up",
        lambda P, n, stage, each=USUAL: split_bytes(P, P / n, stage, each),
    ),
    (
        "rounded down, and what is left over is on no rank: a part is rounded up",
        lambda P, n, stage, each=USUAL: split_bytes(P, P // n, stage, each),
    ),
    (
        "rounded to the nearest, and with some n a rest is on no rank: a part is rounded up",
        lambda P, n, stage, each=USUAL: split_bytes(P, round(P / n), stage, each),
    ),
    (
        "one number more than a rank needs where n divides the parameters: then there is no "
        "padding",
        lambda P, n, stage, each=USUAL: split_bytes(P, P // n + 1, stage, each),
    ),
    (
        "bytes are rounded up; numbers have to be: a rank has whole numbers, and then their bytes",
        lambda P, n, stage, each=USUAL: whole_bytes(P, n, stage, each),
    ),
    (
        "a stage too early: stage 0 splits nothing, stage 1 the optimizer's state",
        lambda P, n, stage, each=USUAL: split_bytes(
            P, count_with_padding(P, n), stage, each, (2, 1, 0)
        ),
    ),
    (
        "a stage too late: stage 1 splits the optimizer's state, stage 2 the gradients as well, "
        "stage 3 everything",
        lambda P, n, stage, each=USUAL: split_bytes(
            P, count_with_padding(P, n), stage, each, (4, 3, 2)
        ),
    ),
    (
        "the other way round: the optimizer's state is split first, as it is the largest, and the "
        "parameters last",
        lambda P, n, stage, each=USUAL: split_bytes(
            P, count_with_padding(P, n), stage, each, (1, 2, 3)
        ),
    ),
    (
        "the kinds are mixed up: parameters and gradients change places",
        lambda P, n, stage, each=USUAL: split_bytes(
            P, count_with_padding(P, n), stage, each, (2, 3, 1)
        ),
    ),
    (
        "a stage splits what those before it split, too: stage 2 the optimizer's state and the "
        "gradients, stage 3 all three",
        lambda P, n, stage, each=USUAL: once_each(P, n, stage, each),
    ),
    (
        "everything is split, whatever the stage",
        lambda P, n, stage, each=USUAL: split_bytes(P, count_with_padding(P, n), 3, each),
    ),
    (
        "what is not split is not padded. In stage 0 nothing is split, so nothing is padded",
        lambda P, n, stage, each=USUAL: split_bytes(
            count_with_padding(P, n) * n, count_with_padding(P, n), stage, each
        ),
    ),
    (
        "nothing is split, whatever the stage",
        lambda P, n, stage, each=USUAL: split_bytes(P, P, 0, each),
    ),
    (
        "these are counts; multiply each by its bytes, from `each`",
        lambda P, n, stage, each=USUAL: split_bytes(P, count_with_padding(P, n), stage, (1, 1, 1)),
    ),
    (
        "`each` is an argument: other bytes are possible than 2, 2 and 12",
        lambda P, n, stage, each=USUAL: split_bytes(P, count_with_padding(P, n), stage, USUAL),
    ),
    (
        "`each` is in the order parameters, gradients, optimizer_state",
        lambda P, n, stage, each=USUAL: split_bytes(P, count_with_padding(P, n), stage, each[::-1]),
    ),
    *[
        (
            why,
            lambda P, n, stage, each=USUAL, kinds=kinds: split_bytes(
                P, count_with_padding(P, n), stage, [each[kind] for kind in kinds]
            ),
        )
        for kinds, why in OTHER_BYTES.items()
    ],
    (
        "these are the bytes of all ranks together; asked is one rank's",
        lambda P, n, stage, each=USUAL: split_bytes(
            n * P, n * count_with_padding(P, n), stage, each
        ),
    ),
]
