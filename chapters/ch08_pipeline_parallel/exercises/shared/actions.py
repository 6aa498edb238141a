"""Actions of the lab's form, made from rows as the checks write them, such as `F0 F1 B0`."""

from itertools import islice
from typing import NamedTuple

from pedagogy_lib.schedules.timelines import text_of


class Action(NamedTuple):
    """An action of a rank, with the fields of the lab's Action."""

    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self):
        return text_of(*self)


def actions_of(text) -> list[Action]:
    """Return a text's actions: `F0 B0.1` is micro-batch 0's forward, its backward on chunk 1."""
    return [Action(name[0], *map(int, name[1:].split("."))) for name in text.split()]


def make_memory_schedule(room):
    """Return a schedule function like the lab's, which runs forwards as early as memory allows.

    room  takes rank, ranks and micro-batches, and returns how many micro-batches a rank may keep
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
    """Return whether the answer gives a single action, the text of its value, and its row.

    Runs next to the answer. The row has up to `most` results of `encode_value`, or is None.
    """
    value = answer(*arguments)
    is_row = hasattr(value, "__iter__") and not isinstance(value, str) and not is_action(value)
    return (
        is_action(value),
        f"{value!r:.60}",
        [*map(encode_value, islice(value, most))] if is_row else None,
    )


def encode_value(value) -> tuple:
    """Return a value in a form that can be sent, with an action as a dict, and the value's text.

    Runs next to the answer.
    """
    shown = f"{value!r:.60}"
    if is_action(value):
        return value._asdict(), shown
    is_sequence = hasattr(value, "__iter__") and not isinstance(value, (str, tuple))
    return [] if is_sequence else value, shown


def is_action(value) -> bool:
    """Return whether a value is a named tuple with the fields of an action."""
    return getattr(value, "_fields", ()) == ("kind", "microbatch", "chunk")
