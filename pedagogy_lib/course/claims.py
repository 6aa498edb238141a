"""Statements and what was found of them."""

from ..basics.tables import Table


def put_to_the_test(text: str) -> Table:
    """A table of statements and what was found, from entries that begin with `- `.

    text  each entry is `statement | who says it | verdict | what was found`, on any lines
    """
    entries = [" ".join(entry.split()) for entry in f"\n{text}".split("\n- ")[1:]]
    heads = ["they say", "source", "verdict", "what was found here"]
    return Table(heads, [[part.strip() for part in entry.split("|")] for entry in entries])
