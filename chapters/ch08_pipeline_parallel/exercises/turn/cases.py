"""The code that runs next to the answer."""

from ..shared.actions import encode_value


def first_turn(answer) -> tuple:
    return encode_value(answer(0, 2, 2))


def rows_of_lab(answer, ranks, m, chunks) -> list[list[tuple]]:
    rows = (answer.lab.interleaved(rank, ranks, m, chunks) for rank in range(ranks))
    return [[tuple(action) for action in row] for row in rows]
