"""Long texts in lines that end at words: JupyterLab breaks those that are too long anywhere."""

import textwrap

COLUMNS = 84


def wrap(text, mark="", deeper=0) -> list[str]:
    """Text in lines of at most COLUMNS, the first behind a mark; its own line breaks stay.

    deeper  by so many columns what goes on with an indented line is indented more than that
    """
    lines = [
        line
        for part in text.splitlines()
        for line in textwrap.wrap(
            part, COLUMNS - len(mark), subsequent_indent=" " * deepened(part, deeper),
            break_long_words=False, break_on_hyphens=False,
        )
    ]  # fmt: skip
    return [(mark if i == 0 else " " * len(mark)) + line for i, line in enumerate(lines)]


def deepened(line, columns) -> int:
    indent = indent_of(line)
    return indent + columns if indent else 0


def indent_of(line) -> int:
    return len(line) - len(line.lstrip())
