"""Rows of schedules as the checks write them: `F0 F1 B0`, as actions of the lab's form."""

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


def in_memory(room):
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
