"""Where students' code runs: behind walls. classroom/README.md says what they keep."""

from .backends import choose_backend, ways
from .limits import Limits
from .place import Place
from .refusals import Refusal

__all__ = ["Limits", "Place", "Refusal", "open_sandbox", "ways"]


def open_sandbox(
    files: dict[str, bytes], way: str | None = None, limits: Limits | None = None, exercises=()
) -> Place:
    """Open a sandbox for a student's answers: `with open_sandbox({"labs/ring.py": …}) as place:`.

    way        by name, as in `ways()`; the best one that works here, if none is named
    exercises  numbers of those that are answered there; all, if none is named
    Raises     Refusal if no walls are here (it says what to install), and for files that have no
               place in the course
    """
    return Place(files, choose_backend(way), limits or Limits(), exercises)
