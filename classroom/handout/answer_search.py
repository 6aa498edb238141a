"""The search for answers in a handout: for solutions, truths and mistakes in all its files.

Code is compared without names, docstrings and annotations. Matches that are not answers are listed
in `false_positives.py`, with the reasons.
"""

import ast
import io
import re
import zipfile
from dataclasses import dataclass
from functools import cache

from coursekit.building.build import BEGIN, BUG, END, ROOT, lab_sources, sources
from coursekit.building.build import text_of as text_of_source
from coursekit.chapters import exercise_folders
from coursekit.check_runner import find_exercise
from coursekit.kit import Formula
from coursekit.kit.packed_checks import unpack_check

from .code_pieces import (
    SMALLEST_WHOLE,
    codes_in,
    normal_form,
    pieces_of,
    shape_of,
    size_of,
    strip_docstrings,
)

MARKED = re.compile(rf"^[ \t]*{BEGIN}\n(.*?)^[ \t]*(?:{BUG}|{END})\n", re.DOTALL | re.MULTILINE)
MOST_STATEMENTS = 12  # of an answer
SMALLEST_OF_TRUTHS = 9  # nodes: any small expression is in one of thousands of mistakes
DEFINITION = re.compile(r"^\s*(?:def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """A piece of an answer.

    whose  "chapters/ch02_collectives/labs/collectives.py all_reduce_ring", "truth or mistakes of …"
    kind   "whole" or "part"
    text   its code, as `ast.unparse` writes it
    """

    whose: str
    kind: str
    text: str


@dataclass(frozen=True)
class AnswerLeak:
    piece: Piece
    file: str
    text: str

    def __str__(self):
        return f"{self.file}: {self.text}\n    as in {self.piece.whose}: {self.piece.text}"


@cache
def answers() -> dict[tuple[str, int, str], Piece]:
    """Return {(kind of node, its size, its normal form): piece} for all answers of the course."""
    found: dict[tuple[str, int, str], Piece] = {}
    of_both = [*((*one, SMALLEST_WHOLE) for one in solutions()),
               *((*one, SMALLEST_OF_TRUTHS) for one in truths())]  # fmt: skip
    for whose, statements, smallest in of_both:
        for kind, node in pieces_of(statements, smallest):
            key = *shape_of(node, size_of(node)), normal_form(node)
            found.setdefault(key, Piece(whose, kind, text_of(node)))
    return found


def solutions():
    """Yield (whose, statements) of everything between the marks of solutions."""
    for path in [*sources(), *lab_sources()]:
        text = text_of_source(path)
        tree = strip_docstrings(ast.parse(text))
        for match in MARKED.finditer(text):
            first = text.count("\n", 0, match.start()) + 1
            lines = range(first, first + match[0].count("\n"))
            names = DEFINITION.findall(text[: match.start()])
            whose = f"{path.relative_to(ROOT).as_posix()} {names[-1] if names else ''}".strip()
            yield whose, list(statements_within(tree, lines))


def statements_within(node, lines):
    """Yield the outermost statements that are within these lines."""
    for child in ast.iter_child_nodes(node):
        is_statement = isinstance(child, ast.stmt)
        if is_statement and child.lineno in lines and child.end_lineno in lines:
            yield child
        elif not isinstance(child, ast.expr):
            yield from statements_within(child, lines)


def truths():
    """Yield (whose, statements) of each function in the truths and mistakes of formulas."""
    for number, folder in exercise_folders().items():
        if isinstance(find_exercise(number), Formula) and (folder / "truth.py").exists():
            text = (folder / "truth.py").read_text(encoding="utf-8")
            for statements in bodies_of_functions(strip_docstrings(ast.parse(text))):
                yield f"truth or mistakes of {folder.name}", statements


def bodies_of_functions(tree):
    for part in ast.walk(tree):
        if isinstance(part, ast.Lambda):
            yield [ast.Return(part.body)]
        if isinstance(part, ast.FunctionDef):
            yield part.body


def search(files: dict[str, bytes]) -> list[AnswerLeak]:
    """Return every piece of an answer that is in one of these files, or in a zip among them."""
    wanted = answers()
    shapes, found = {key[:2] for key in wanted}, {}
    for name, data in unzip_files(files).items():
        for tree in codes_in(name, data):
            for node, size in measure_nodes(strip_docstrings(tree)):
                shape = shape_of(node, size)
                piece = wanted.get((*shape, normal_form(node))) if shape in shapes else None
                if piece is not None and (piece.kind == "part" or is_body(node)):
                    found[name, piece] = AnswerLeak(piece, name, text_of(node))
    return list(found.values())


def text_of(node) -> str:
    return "\n".join(map(ast.unparse, node)) if isinstance(node, list) else ast.unparse(node)


def is_body(node) -> bool:
    """Return whether a node is a function's whole result, a whole text, or several statements."""
    return isinstance(node, list) or getattr(node, "is_body", False)


def measure_nodes(tree):
    """Yield (node, size) of all statements, expressions and runs of statements of a tree."""
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.Lambda) else None
        statements = node.body if isinstance(node, (ast.FunctionDef, ast.Module)) else []
        if len(statements) == 1 and isinstance(statements[0], (ast.Return, ast.Expr)):
            body = statements[0].value
        if body is not None:
            body.is_body = True
        if isinstance(node, (ast.stmt, ast.expr)):
            yield node, size_of(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            yield from runs_of(block if isinstance(block, list) else [])


def runs_of(block):
    """Yield (statements, size) of each run of neighbouring statements in a block."""
    sizes = list(map(size_of, block))
    for first in range(len(block)):
        for end in range(first + 2, min(len(block), first + MOST_STATEMENTS) + 1):
            yield block[first:end], sum(sizes[first:end])


def unzip_files(files) -> dict[str, bytes]:
    found = {}
    for name, data in files.items():
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inner = {f"{name}/{one}": archive.read(one) for one in archive.namelist()}
            found |= unzip_files(inner)
        elif name.endswith(".py"):  # checks are packed, and a student may unpack them
            found[name] = unpack_check(data.decode(errors="replace")).encode()
        else:
            found[name] = data
    return found
