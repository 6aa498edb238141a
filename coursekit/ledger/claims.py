"""Statements with the verdicts on them: a table, and the data behind it for the ledger."""

import re

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.tables import Table
from pedagogy_lib.basics.units import brief, format_count

from ..verdicts import render_details

HEADS = ["they say", "source", "verdict", "what was found here"]
PARTS = ("statement", "source", "verdict", "found")
EVIDENCE = ("measured", "computed", "documented")
MOST_IN_VIEW = 8
NAMES = re.compile(r"\[([A-Z]\d+(?:, [A-Z]\d+)*)\] +")


def put_to_the_test(text: str, more: str = "", fold: str = "") -> "Claims":
    """Return a table of statements and findings, from entries that begin with `- `.

    text    each entry is `statement | who says it | verdict | what was found`, on any lines.
            Names of the statement may precede it, as in `- [C056, C081] DDP averages | …`, and a
            fifth part may follow: what the verdict rests on (`measured`, `computed` or
            `documented`), a colon, and what could change it on GPUs. Both are kept in the data, for
            the ledger, and not shown. With `more`, there are at most eight entries
    more    further entries, shown at a click: true statements that are no surprise
    fold    words under which the whole table is folded, shown at a click on them
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


def entries_of(text) -> list[dict]:
    """Return the data of each entry."""
    need(isinstance(text, str), f"put_to_the_test() takes a text, not {brief(text)}")
    entries = [" ".join(entry.split()) for entry in f"\n{text}".split("\n- ")[1:]]
    need(entries, "put_to_the_test() takes lines that begin with `- `, one for each statement")
    return [entry_of(entry) for entry in entries]


def entry_of(text) -> dict:
    """Return an entry's parts by name, and what `basis_of` returns for its fifth part, if any."""
    found = NAMES.match(text)
    names = found[1].split(", ") if found else []
    parts = [part.strip() for part in text[found.end() if found else 0 :].split("|")]
    told = parts[len(PARTS) :]
    need(
        len(parts) >= len(PARTS) and len(told) <= 1,
        f"a statement has four parts between `|`, or five; this one has {len(parts)}: "
        f"{brief(text)}",
    )
    entry = {"claims": names} | dict(zip(PARTS, parts))
    return entry | basis_of(told[0]) if told else entry


def basis_of(text) -> dict:
    """Return the evidence that a verdict rests on, and what could change the verdict on GPUs."""
    evidence, _, on_gpus = (part.strip() for part in text.partition(":"))
    need(
        evidence in EVIDENCE and on_gpus,
        f"a fifth part is {' or '.join(EVIDENCE)}, a colon, and a sentence on GPUs, "
        f"not {brief(text)}",
    )
    return {"evidence": evidence, "on_gpus": on_gpus}


def make_rows(entries) -> list[list[str]]:
    return [[entry[part] for part in PARTS] for entry in entries]


class Claims(Table):
    """A table of the statements in view, with others behind a click and all data as metadata."""

    def __init__(self, shown, others, fold):
        super().__init__(HEADS, make_rows(shown), title=fold)
        self.others = Table(HEADS, make_rows(others)) if others else None
        self.data = [*shown, *others]

    def summary(self) -> str:
        return f"{format_count(len(self.others.rows), 'other statement')} of the sources"

    def __repr__(self):
        told = super().__repr__()
        return f"{told}\n\n{self.summary()}:\n{self.others!r}" if self.others else told

    def _repr_html_(self):
        others = render_details(self.summary(), self.others._repr_html_()) if self.others else ""
        if not self.title:
            return super()._repr_html_() + others
        return render_details(self.title, Table(self.heads, self.rows)._repr_html_() + others)

    def _repr_mimebundle_(self, include=None, exclude=None):
        """Return text and HTML, with the data as metadata, which notebooks keep and do not show."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}, {"claims": self.data}
