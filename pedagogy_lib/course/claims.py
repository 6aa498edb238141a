"""Statements and what was found of them."""

from ..basics.errors import need
from ..basics.tables import Table
from ..basics.units import brief
from .verdicts import folded


def put_to_the_test(text: str, fold: str = "") -> Table:
    """A table of statements and what was found, from entries that begin with `- `.

    text    each entry is `statement | who says it | verdict | what was found`, on any lines
    fold    words under which the table is folded away, to be opened by a click
    Raises  LaunchError if an entry has other parts, or there is none
    """
    need(isinstance(text, str), f"put_to_the_test() takes a text, not {brief(text)}")
    need(isinstance(fold, str), f"a table is folded under some words, not {brief(fold)}")
    entries = [" ".join(entry.split()) for entry in f"\n{text}".split("\n- ")[1:]]
    need(entries, "put_to_the_test() takes lines that begin with `- `, one for each statement")
    heads = ["they say", "source", "verdict", "what was found here"]
    rows = [[part.strip() for part in entry.split("|")] for entry in entries]
    return Folded(heads, rows, title=fold) if fold else Table(heads, rows)


class Folded(Table):
    """A table under its title; in HTML, its rows are shown at a click on the title."""

    def _repr_html_(self):
        return folded(self.title, Table(self.heads, self.rows)._repr_html_())
