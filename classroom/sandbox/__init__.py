"""The sandbox in which students' code runs; classroom/README.md says what it guarantees."""

from .backends import choose_backend, ways
from .limits import Limits
from .refusals import Refusal
from .student_sandbox import StudentSandbox

__all__ = ["Limits", "Refusal", "StudentSandbox", "open_sandbox", "ways"]


def open_sandbox(
    files: dict[str, bytes], way: str | None = None, limits: Limits | None = None, exercises=()
) -> StudentSandbox:
    """Open a sandbox for a student's answers: `with open_sandbox({"labs/ring.py": …}) as sandbox:`.

    way        a name in `ways()`; by default the best one that works here
    exercises  numbers of those that are answered there; by default all
    Raises     Refusal if no sandbox works here (it says what to install), and for files that have
               no place in the course
    """
    return StudentSandbox(files, choose_backend(way), limits or Limits(), exercises)
