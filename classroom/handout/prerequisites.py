"""The exercises of other parts that come first, because a handout's cells stop without them."""

import re
import tempfile
from pathlib import Path

from coursekit.chapters import exercise_folders
from coursekit.labs.unwritten import still_to_write

from .handout_labs import lab_text

ATTRIBUTE = re.compile(r"\.(\w+)")
NUMBER = re.compile(r"\d+\.\d+")


def find_prerequisites(own, texts, labs, needs) -> tuple[str, ...]:
    """Return the numbers of earlier exercises that these build on, or that the parts' cells reach.

    own    numbers of the parts' exercises;  texts  of the parts;  labs  those of the handout
    needs  a function of an exercise's number: those that its check says it is built on
    """
    found = set(own) | come_to(texts, labs)
    while more := {n for number in found for n in needs(number)} - found:
        found |= more
    order = list(exercise_folders())
    last = max((order.index(number) for number in own), default=0)
    return tuple(n for n in order[:last] if n in found and n not in own)


def come_to(texts, labs) -> set[str]:
    """Return the numbers of unwritten exercises that the labs' functions in these texts reach."""
    with tempfile.TemporaryDirectory() as folder:
        for lab in labs:
            Path(folder, f"{lab}.py").write_text(lab_text(lab), encoding="utf-8")
        return {
            number
            for text in texts
            for lab in labs
            if f'lab("{lab}"' in text
            for told in still_to_write(Path(folder, f"{lab}.py"), ATTRIBUTE.findall(text))
            for number in NUMBER.findall(told)
        }
