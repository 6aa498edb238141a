"""What the course remembers beside a notebook, so that it outlives the kernel."""

import contextlib
import json
from pathlib import Path

from ..basics.screen import someone_watches


class Kept:
    """A dictionary in a hidden file of the current folder. One that is spoilt counts as empty."""

    def __init__(self, name):
        self.path = Path(f".{name}.json")

    def read(self) -> dict:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):  # there is none, or it is spoilt
            return {}
        return found if isinstance(found, dict) else {}

    def put(self, key: str, value):
        """Remember a value; None forgets it. In a folder that is read-only, nothing is kept."""
        values = {k: v for k, v in (self.read() | {key: value}).items() if v is not None}
        with contextlib.suppress(OSError):
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(values, indent=1, ensure_ascii=False))
            new.replace(self.path)  # at once: a full disk must not cost the former ones


PASSED = Kept("progress")  # {number of an exercise: whether its last check has passed}
CHECKED: dict[str, bool] = {}  # the same, of this kernel


def note_check(number: str, passed: bool | None):
    """Remember how the check of an exercise ended; not of one without an answer."""
    if passed is not None:
        CHECKED[number] = passed
        if someone_watches():
            PASSED.put(number, passed)


def solved_among(numbers) -> list[str]:
    """Those whose last check has passed."""
    # What is stored beside the notebook must not show up in tests and reports.
    known = (PASSED.read() if someone_watches() else {}) | CHECKED
    return [number for number in numbers if known.get(number)]
