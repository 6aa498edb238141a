"""Plain tables that read well in a notebook, in a terminal and to a test."""

import re
from collections.abc import Iterable
from html import escape

from .errors import need
from .units import brief

ONE_LINE = 30  # characters of a cell that always fit on one line
TOP = " valign=top", ";vertical-align:top"
NUMBER = re.compile(r"[-+−]?\d[\d.,]*(?:e[-+]?\d+)?(?: ?%| ?[a-zA-Zµ]{1,2})?")


class Table:
    """Rows of text under column heads.

    heads   one name per column
    rows    lists of values, shown with `str`
    groups  (name, number of columns) above the heads, if the columns fall into groups
    Raises  LaunchError if a row or the groups do not have as many columns as there are heads
    """

    def __init__(self, heads, rows, title="", note="", groups=()):
        self.heads = one_lines(heads)
        need(isinstance(rows, Iterable), f"a table takes lists of values, not {brief(rows)}")
        self.rows = [one_lines(row) for row in rows]
        for row in self.rows:
            need(
                len(row) == len(self.heads),
                f"a row has {len(row)} values under {len(self.heads)} heads: {brief(row)}",
            )
        self.title, self.note = title, note
        self.groups = [(*one_lines([name]), width) for name, width in groups]
        widths = [width for _, width in self.groups]
        need(
            not groups or sum(widths) == len(self.heads),
            f"the groups have {widths} columns, and there are {len(self.heads)} heads",
        )

    def __repr__(self):
        lines = [self.flat_heads(), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        body = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join(filter(None, [self.title, *body, self.note]))

    def flat_heads(self) -> list[str]:
        """Return the heads, each with its group's name in front."""
        names = [name for name, width in self.groups for _ in range(width)] or self.heads
        return [
            f"{name}: {head}" if name and self.groups else head
            for name, head in zip(names, self.heads, strict=True)
        ]

    def _repr_html_(self):
        wraps = any(len(text) > ONE_LINE for row in [self.heads, *self.rows] for text in row)
        top = TOP if wraps else ("", "")
        groups = "".join(
            cell_of("th", name, "center", top, f" colspan={width}" if width > 1 else "")
            for name, width in self.groups
        )
        above = f"<tr>{groups}</tr>" if groups else ""
        columns = zip(*self.rows, strict=True)
        sides = [side_of(column) for column in columns] or ["left"] * len(self.heads)
        heads = row_of("th", self.heads, sides, top)
        body = "".join(f"<tr>{row_of('td', row, sides, top)}</tr>" for row in self.rows)
        title = f"<p><b>{escape(self.title)}</b></p>" if self.title else ""
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        table = f"<table><thead>{above}<tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x:auto" tabindex="0">{title}{table}{note}</div>'


def one_lines(values) -> list[str]:
    """Return each value as one line of text."""
    need(
        isinstance(values, Iterable) and not isinstance(values, str),
        f"a table takes lists of values, not {brief(values)}",
    )
    return [" ".join(str(value).splitlines()) for value in values]


def row_of(tag, texts, sides, top) -> str:
    return "".join(cell_of(tag, text, side, top) for text, side in zip(texts, sides))


def side_of(column) -> str:
    """Return the alignment of a column: right for numbers with their units, left for words."""
    return "right" if all(map(NUMBER.fullmatch, column)) else "left"


def cell_of(tag, text, side, top, more="") -> str:
    """Return one cell. Older attributes align it on pages that drop styles, such as GitHub's.

    top  `TOP` in a table with texts of several lines, else two empty strings
    """
    if tag == "th" and not text:
        tag = "td"  # an empty head is no header
    attributes, style = top
    # No quotes, since a record keeps each with a backslash, in thousands of cells.
    align = f"align={side}{attributes} style=text-align:{side}{style}"
    return f"<{tag}{more} {align}>{escape(text)}</{tag}>"
