"""What came of one case of an answer that was tried on ranks."""

from dataclasses import dataclass, field
from types import SimpleNamespace


@dataclass
class Trial:
    """By place in the world or group of a case: what each rank has found, and has sent.

    case           has `ranks`, the world's numbers of those who took part
    found          what each of them has noted: `trial[place].name`
    calls          of communication, that the answer has made on each
    worlds_passed  whether the answer was right in a whole world before
    """

    case: object
    found: list[SimpleNamespace]
    calls: list[list] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    received_bytes: list[int] = field(default_factory=list)
    worlds_passed: bool = False

    @property
    def n(self) -> int:
        return len(self.found)

    def __getitem__(self, place) -> SimpleNamespace:
        return self.found[place]

    def of(self, name) -> list | None:
        """What all ranks have found under a name; None if there is nothing of that name."""
        if all(hasattr(of_rank, name) for of_rank in self.found):
            return [getattr(of_rank, name) for of_rank in self.found]

    def who(self, place) -> str:
        """A rank is called by its number in the world, in a group as well."""
        return f"rank {self.case.ranks[place]}"
