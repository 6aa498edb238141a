"""The questions of each chapter, in a file each; `questions_of` finds them."""

from importlib import import_module
from pathlib import Path

from ..question import Question

CHAPTERS = sorted(path.stem[2:] for path in Path(__file__).parent.glob("ch*.py"))


def questions_of(chapters=CHAPTERS) -> list[Question]:
    """Return the questions of these chapters ("02") or parts ("02c"), in their order."""
    found = []
    for chapter in dict.fromkeys(name[:2] for name in chapters if name[:2] in CHAPTERS):
        module = import_module(f"{__name__}.ch{chapter}")
        found += [q for q in module.QUESTIONS if {q.chapter, q.part} & set(chapters)]
    return found
