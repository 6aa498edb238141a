"""The question that a part asks, as its page shows it."""

import re
from functools import cache

from coursekit.building.build import ROOT

from .notebook_format import read

QUESTION = re.compile(r"\*\*(.+?\?)\*\*", re.DOTALL)


@cache
def question_of(stem: str) -> str:
    """Return a part's question, the first bold one in its notebook's first cell, or ""."""
    first = read(ROOT / "notebooks" / f"{stem}.ipynb")[0].source
    found = QUESTION.search(first)
    return " ".join(found[1].split()) if found else ""
