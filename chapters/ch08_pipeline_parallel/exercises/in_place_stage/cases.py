"""The code that runs next to the answer."""

from collections.abc import Callable
from dataclasses import dataclass

from coursekit.labs import find_lab

from ..shared.unflushed import try_stage


@dataclass(frozen=True)
class LabClass:
    """A class from a notebook's cell, and the lab that has its base class."""

    make: Callable
    lab: object

    def __call__(self, *args, **kwargs):
        return self.make(*args, **kwargs)


def try_in_its_lab(answer, group, case):
    return try_stage(LabClass(answer, find_lab("pipedream")), group, case)


def show_wrong_class(answer) -> str:
    bases = answer.__mro__[1:] if isinstance(answer, type) else ()
    return "" if any(base.__name__ == "StashingStage" for base in bases) else f"{answer!r:.60}"
