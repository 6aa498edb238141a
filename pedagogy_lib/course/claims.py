"""Statements and what was found of them."""

from ..basics.errors import need
from ..basics.tables import Table
from ..basics.units import brief


def put_to_the_test(text: str) -> Table:
    """A table of statements and what was found, from entries that begin with `- `.

    text    each entry is `statement | who says it | verdict | what was found`, on any lines
    Raises  LaunchError if an entry has other parts, or there is none
    """
    need(isinstance(text, str), f"put_to_the_test() takes a text, not {brief(text)}")
    entries = [" ".join(entry.split()) for entry in f"\n{text}".split("\n- ")[1:]]
    need(entries, "put_to_the_test() takes lines that begin with `- `, one for each statement")
    heads = ["they say", "source", "verdict", "what was found here"]
    return Table(heads, [[part.strip() for part in entry.split("|")] for entry in entries])
