"""Plain tables that read well in a notebook, in a terminal and to a test."""

import re
from html import escape
from itertools import zip_longest

NUMBER = re.compile(r"[-+−]?\d[\d.,]*(?:e[-+]?\d+)?(?: ?%| ?[a-zA-Zµ]{1,2})?")


class Table:
    """Rows of text under column heads.

    heads   one name for each column
    rows    lists of values, shown with `str`
    groups  (name, number of columns) above the heads, if the columns fall into groups
    """

    def __init__(self, heads, rows, title="", note="", groups=()):
        self.heads, self.rows = one_lines(heads), [one_lines(row) for row in rows]
        self.title, self.note = title, note
        self.groups = [(" ".join(name.splitlines()), width) for name, width in groups]

    def __repr__(self):
        lines = [self.flat_heads(), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        body = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join(filter(None, [self.title, *body, self.note]))

    def flat_heads(self) -> list[str]:
        """The heads, each with its group's name in front."""
        names = [name for name, width in self.groups for _ in range(width)] or self.heads
        return [
            f"{name}: {head}" if name and self.groups else head
            for name, head in zip(names, self.heads, strict=True)
        ]

    def _repr_html_(self):
        groups = "".join(
            cell_of("th", name, "center", f' colspan="{width}"') for name, width in self.groups
        )
        top = f"<tr>{groups}</tr>" if groups else ""
        columns = zip_longest(*self.rows, fillvalue="")
        sides = [side_of(column) for column in columns] or ["left"] * len(self.heads)
        heads = row_of("th", self.heads, sides)
        body = "".join(f"<tr>{row_of('td', row, sides)}</tr>" for row in self.rows)
        title = f"<p><b>{escape(self.title)}</b></p>" if self.title else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        table = f"<table><thead>{top}<tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x:auto" tabindex="0">{title}{table}{note}</div>'


def one_lines(values) -> list[str]:
    """Each value as one line of text."""
    return [" ".join(str(value).splitlines()) for value in values]


def row_of(tag, texts, sides) -> str:
    return "".join(cell_of(tag, text, side) for text, side in zip(texts, sides))


def side_of(column) -> str:
    """Numbers stand under each other at the right, with their units; words at the left."""
    return "right" if all(map(NUMBER.fullmatch, column)) else "left"


def cell_of(tag, text, side, more="") -> str:
    """One cell. Where a page drops styles, as GitHub's does, the older attributes still align."""
    if tag == "th" and not text:
        tag = "td"  # a head that says nothing is none
    align = f'align="{side}" valign="top" style="text-align:{side};vertical-align:top"'
    return f"<{tag}{more} {align}>{escape(text)}</{tag}>"
