"""The sandbox in which students' code runs; classroom/README.md says what it guarantees."""

from .backends import choose_backend, ways
from .limits import Limits
from .place import Place
from .refusals import Refusal

__all__ = ["Limits", "Place", "Refusal", "open_sandbox", "ways"]


def open_sandbox(
    files: dict[str, bytes], way: str | None = None, limits: Limits | None = None, exercises=()
) -> Place:
    """Open a sandbox for a student's answers: `with open_sandbox({"labs/ring.py": …}) as place:`.

    way        a name in `ways()`; by default the best one that works here
    exercises  numbers of those that are answered there; by default all
    Raises     Refusal if no sandbox works here (it says what to install), and for files that have
               no place in the course
    """
    return Place(files, choose_backend(way), limits or Limits(), exercises)
