"""Notebooks and programs as statements, whoever has written them, and in whichever version.

A cell that is not valid Python loses only its own statements. Nothing is run.
"""

import ast
import json
import re
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import parso

MOST_DEPTH = 90  # levels of a tree: `ast.unparse` and the like need several calls for each
MOST_CHARACTERS = 2_000_000  # of a program
PERCENT = re.compile(r"^# ?%%.*$", re.MULTILINE)
# Cell magics whose body is Python and runs once or more.
RUNS_ITS_BODY = ("time", "timeit", "prun", "capture", "memit", "mprun", "lprun")
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Statement:
    """A statement of a program, at the outermost level.

    cell  number of the code cell, from 1; None in a .py file
    line  within the cell or the file
    at    its position: greater for later statements
    """

    node: ast.stmt
    text: str
    path: str
    cell: int | None
    line: int
    at: tuple[int, int]

    @property
    def where(self) -> str:
        cell = f"cell {self.cell}, " if self.cell else ""
        return f"{self.path}, {cell}line {self.line}"


@dataclass
class Program:
    """The contents of one file; `broken` has what is wrong with each text that is not Python."""

    path: str
    text: str = ""
    statements: list[Statement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)


def read_program(path: str, data: bytes) -> Program:
    """Read the program in a .ipynb, .py or kept .txt file."""
    program = Program(path)
    text = decode_text(data, program)
    if len(text) > MOST_CHARACTERS:
        program.problems.append(f"{path} is not read: it has {len(text):,} characters")
        return program
    program.text = text
    if path.lower().endswith(".ipynb"):
        read_notebook(text, program)
    else:
        for cell, (first, source) in enumerate(pieces_of(text)):
            add_source(program, source, None, first, cell)
    return program


def decode_text(data: bytes, program) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        program.problems.append(f"{program.path} is not UTF-8: it was read as Latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def pieces_of(text) -> list[tuple[int, str]]:
    """Return (lines before it, source) of each cell of a percent file, or of the whole file."""
    starts = [0, *(found.start() for found in PERCENT.finditer(text)), len(text)]
    return [(text.count("\n", 0, a), text[a:b]) for a, b in pairwise(starts) if a < b]


def read_notebook(text, program):
    try:
        cells = cells_of(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        program.problems.append(f"{program.path} is no notebook that can be read: {what}")
        return
    for number, source in enumerate(cells, 1):
        add_source(program, source, number, 0, number)


def cells_of(text) -> list[str]:
    """Return the sources of the code cells, in any version of the format and despite faults in it.

    nbformat takes seconds to import, and rejects a notebook for a fault in one cell.
    """
    raw = json.loads(text)
    cells = raw["cells"] if "cells" in raw else [c for s in raw["worksheets"] for c in s["cells"]]
    kinds = [cell for cell in cells if cell.get("cell_type") == "code"]
    return [join_source(cell.get("source", cell.get("input", ""))) for cell in kinds]


def join_source(source) -> str:
    text = source if isinstance(source, str) else "".join(map(str, source))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def add_source(program, source, cell, first_line, order):
    """Add the statements of a cell, or note why it has none."""
    source = convert_magics(source)
    try:
        nodes = parse(source)
        lines = source.split("\n")
    except UNREADABLE as error:
        nodes, lines = rest_of(source, program, error, cell, first_line)
    for turn, node in enumerate(nodes):
        begin = first_line_of(node)
        text = "\n".join(lines[begin - 1 : node.end_lineno])
        place = first_line + begin
        program.statements.append(
            Statement(node, own_part(node, text), program.path, cell, place, (order, turn))
        )


def own_part(node, text) -> str:
    """Return a statement's text, unparsed anew if it shares a line with another statement."""
    try:
        return text if len(parse(text)) == 1 else ast.unparse(node)
    except UNREADABLE:
        return ast.unparse(node)


@lru_cache(4096)
def tree_of(source) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about `is` with a number, and about backslashes
        tree = ast.parse(source)
    if depth_of(tree) > MOST_DEPTH:
        raise RecursionError("its statements nest too deeply")
    return tree


def depth_of(tree) -> int:
    """Return the depth of a tree in nodes, without recursion."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [one for node in level for one in ast.iter_child_nodes(node)]
    return depth


def parse(source) -> list[ast.stmt]:
    """Return the statements of a source. They are cached, so nobody may change them."""
    return tree_of(source).body


def first_line_of(node) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def rest_of(source, program, error, cell, first_line) -> tuple[list, list[str]]:
    """Return the statements around those that are not valid Python, and note what is wrong."""
    line = first_line + (getattr(error, "lineno", None) or 1)
    what = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
    place = f"{program.path}, {f'cell {cell}, ' if cell else ''}line {line}"
    program.problems.append(f"{place}: {what}; what stands there was not read")
    lines, nodes = source.split("\n"), []
    for begin, text in readable(source):
        try:
            nodes += parse("\n" * begin + text)
        except UNREADABLE:
            program.broken.append((f"{place}: {what}", text))
    return nodes, lines


def readable(source) -> list[tuple[int, str]]:
    """Return (lines before it, text) of each part of a source, so that an error spoils only one."""
    try:
        children = parso.parse(source).children
        codes = [child.get_code() for child in children]
    except RecursionError:
        return [(0, source)]
    parts, before = [], 0
    for code in codes:
        stripped = code.lstrip("\n")
        parts.append((before + code.count("\n") - stripped.count("\n"), stripped))
        before += code.count("\n")
    return parts


def convert_magics(source) -> str:
    """Return the cell as Python: IPython's own syntax is turned into calls or left out."""
    if source.startswith("%%"):
        head, _, body = source.partition("\n")
        name = head[2:].split()[0] if head[2:].split() else ""
        return f"\n{convert_magics(body)}" if name in RUNS_ITS_BODY else ""
    if not re.search(r"^\s*[%!?]|\?\s*$|=\s*[%!]", source, re.MULTILINE):
        return source
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        return TransformerManager().transform_cell(source)
    except UNREADABLE:
        return source
