"""Rows of schedules as the checks write them: `F0 F1 B0`, as actions of the lab's form."""

from itertools import islice
from typing import NamedTuple

from pedagogy_lib.schedules.timelines import text_of


class Action(NamedTuple):
    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self):
        return text_of(*self)


def actions_of(text) -> list[Action]:
    """`F0 B0.1` as actions: a forward of micro-batch 0, a backward on chunk 1."""
    return [Action(name[0], *map(int, name[1:].split("."))) for name in text.split()]


def make_memory_schedule(room):
    """A schedule, like those of the lab: forwards as early as there is memory for them.

    room  takes rank, ranks and micro-batches, and gives how many micro-batches a rank may keep
    """

    def schedule(rank, ranks, m):
        done = {"F": 0, "B": 0}
        while done["B"] < m:
            is_full = done["F"] - done["B"] >= room(rank, ranks, m) or done["F"] == m
            kind = "B" if is_full and done["B"] < done["F"] else "F"
            yield Action(kind, done[kind])
            done[kind] += 1

    return schedule


def row_given(answer, arguments, most) -> tuple:
    """Beside the answer: whether it gives a single action, what that shows, and what is in a row.

    The row is None where there is none; of each value there is also what it shows.
    """
    value = answer(*arguments)
    is_row = hasattr(value, "__iter__") and not isinstance(value, str) and not is_action(value)
    return (
        is_action(value),
        f"{value!r:.60}",
        [*map(encode_value, islice(value, most))] if is_row else None,
    )


def encode_value(value) -> tuple:
    """Beside the answer: a value as it can travel, an action as a dict; and what it shows."""
    shown = f"{value!r:.60}"
    if is_action(value):
        return value._asdict(), shown
    is_sequence = hasattr(value, "__iter__") and not isinstance(value, (str, tuple))
    return [] if is_sequence else value, shown


def is_action(value) -> bool:
    return getattr(value, "_fields", ()) == ("kind", "microbatch", "chunk")
