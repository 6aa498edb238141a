"""Statements and what was found of them: a table, and data for whoever collects them."""

import re

from ..basics.errors import need
from ..basics.tables import Table
from ..basics.units import brief, counted
from .verdicts import folded

HEADS = ["they say", "source", "verdict", "what was found here"]
MOST_IN_VIEW = 8
NAMES = re.compile(r"\[([A-Z]\d+(?:, [A-Z]\d+)*)\] +")


def put_to_the_test(text: str, more: str = "", fold: str = "") -> "Claims":
    """A table of statements and what was found, from entries that begin with `- `.

    text    each entry is `statement | who says it | verdict | what was found`, on any lines.
            Names of the statement may stand before it, as in `- [C056, C081] DDP averages | …`:
            they are kept in the data, and not shown. At most eight entries if there are more
    more    the same, shown at a click: what is true, and surprises nobody
    fold    words under which the whole table is shown, at a click on them
    Raises  LaunchError if an entry has other parts, or there is none
    """
    need(isinstance(fold, str), f"a table is folded under some words, not {brief(fold)}")
    shown, others = entries_of(text), entries_of(more) if more else []
    need(
        not others or len(shown) <= MOST_IN_VIEW,
        f"put_to_the_test() shows {len(shown)} statements, and folds others: "
        f"show at most {MOST_IN_VIEW}",
    )
    return Claims(shown, others, fold)


def entries_of(text) -> list[tuple[list[str], list[str]]]:
    """The names and the four parts of each entry."""
    need(isinstance(text, str), f"put_to_the_test() takes a text, not {brief(text)}")
    entries = [" ".join(entry.split()) for entry in f"\n{text}".split("\n- ")[1:]]
    need(entries, "put_to_the_test() takes lines that begin with `- `, one for each statement")
    return [names_and_parts(entry) for entry in entries]


def names_and_parts(entry) -> tuple[list[str], list[str]]:
    found = NAMES.match(entry)
    names = found[1].split(", ") if found else []
    return names, [part.strip() for part in entry[found.end() if found else 0 :].split("|")]


class Claims(Table):
    """What is in view, and behind a click the others; as metadata of the output all of them."""

    def __init__(self, shown, others, fold):
        super().__init__(HEADS, [parts for _, parts in shown], title=fold)
        self.others = Table(HEADS, [parts for _, parts in others]) if others else None
        self.data = [
            {"claims": names, **dict(zip(("statement", "source", "verdict", "found"), parts))}
            for names, parts in [*shown, *others]
        ]

    def summary(self) -> str:
        return f"{counted(len(self.others.rows), 'other statement')} of the sources"

    def __repr__(self):
        told = super().__repr__()
        return f"{told}\n\n{self.summary()}:\n{self.others!r}" if self.others else told

    def _repr_html_(self):
        others = folded(self.summary(), self.others._repr_html_()) if self.others else ""
        if not self.title:
            return super()._repr_html_() + others
        return folded(self.title, Table(self.heads, self.rows)._repr_html_() + others)

    def _repr_mimebundle_(self, include=None, exclude=None):
        """As text and as a page; the data are metadata, which notebooks keep and do not show."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}, {"claims": self.data}
