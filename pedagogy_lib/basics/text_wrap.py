"""Wrapping of long texts at words, because JupyterLab breaks lines that are too long anywhere."""

import textwrap

COLUMNS = 84


def wrap(text, mark="", deeper=0) -> list[str]:
    """Wrap a text to lines of at most COLUMNS, the first after `mark`; its own line breaks stay.

    deeper  extra columns of indentation for the continuation of an indented line
    """
    parts = [part for line in text.splitlines() for part in split_source_line(line, len(mark))]
    lines = [
        line
        for part in parts
        for line in textwrap.wrap(
            part, COLUMNS - len(mark), subsequent_indent=" " * deepen_indent(part, deeper),
            break_long_words=False, break_on_hyphens=False,
        )
    ]  # fmt: skip
    return [(mark if i == 0 else " " * len(mark)) + line for i, line in enumerate(lines)]


def split_source_line(line, columns) -> list[str]:
    """Split a line that ends with a line of a program into two if it is too long for one."""
    where, colon, source = line.partition("():  ")
    if not colon or len(line) + columns <= COLUMNS:
        return [line]
    return [f"{where}():", f"{' ' * (indent_of(line) + 4)}{source}"]


def deepen_indent(line, columns) -> int:
    indent = indent_of(line)
    return indent + columns if indent else 0


def indent_of(line) -> int:
    return len(line) - len(line.lstrip())
