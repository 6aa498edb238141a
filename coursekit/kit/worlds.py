"""Where an answer is tried: a world of ranks, or a group among them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """So many ranks; if there are members, an answer is called on these alone, as a group."""

    size: int
    members: tuple[int, ...] | None = None

    @property
    def ranks(self):
        return self.members or range(self.size)

    def __str__(self):
        if self.members:
            return f"a group of ranks {list(self.members)} among {self.size}"
        return f"{self.size} rank" + ("s" if self.size > 1 else "")


GROUP = World(4, (1, 2, 3))  # without rank 0; 3 and 4 tell its size from the world's


@dataclass(frozen=True)
class At:
    """A case: a world, further arguments for what is done there, and what is said of these."""

    world: World
    args: tuple = ()
    what: str = ""

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self.world.ranks)

    @property
    def is_group(self) -> bool:
        return self.world.members is not None

    def __str__(self):
        return f"{self.world}{self.what}"


TOO_LONG = (
    "this takes too long. Is there a call, or a round of a loop, for each element of a tensor? One "
    "call for each tensor is enough. Or is there a loop that never ends?"
)
