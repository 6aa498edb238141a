"""The files that an executed record was made from, and a digest that shows when one has changed.

A record is made from its code cells, the labs that they name, the labs that those import, and the
checks that it calls, with the modules next to them. The bench and the kit of the checks do not
count, not even from where a check imports them, because a change there would make every record
outdated: the parts that `make test` executes cover these. Nor do the checks' truths and mistakes
count, because a record shows right answers: the answers' tests cover them. Comments and docstrings
change nothing that a program prints, so they count only in a lab that a cell opens to show it.
"""

import ast
import hashlib
import io
import json
import re
import tokenize
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from .. import content
from ..chapters import FOLDER, exercise_folders, find_checks

LABS = re.compile(
    r'lab\(\s*"(\w+)"'  # lab("zero"), find_lab("zero")
    r'|\blab="(\w+)"'  # of an exercise
    r"|\b(\w+)\.py\b"  # run_torchrun("../labs/zero.py")
    r"|^\s*(?:from|import) (\w+)",  # also inside a string that becomes a program
    re.MULTILINE,
)
SHOWN = re.compile(r'\bopen\("\.\./labs/(\w+)\.py"')  # a cell that prints a lab with its docstrings
OURS = ("pedagogy_lib", "coursekit")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest_inputs(cells: Iterable[tuple], text: str, root: Path) -> str:
    """Return a digest of code cells and of every file behind them.

    cells  the parts of each cell that count: its code, its tags
    text   the code of all cells
    root   the course's folder
    """
    shown = SHOWN.findall(text)
    files = [
        [*path.parts[-2:], path.read_text("utf-8") if path.stem in shown else digest_file(path)]
        for path in input_files(text, root)
    ]
    state = json.dumps([list(cells), sorted(files)])
    return hashlib.sha256(state.encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return a digest of a file; for a check's module, without its imports from bench and kit."""
    data = path.read_bytes()
    if path.suffix == ".py":
        text = data.decode()
        is_check = "exercises" in path.parts
        data = read_code(remove_course_imports(text) if is_check else text).encode()
    return hashlib.sha256(data).hexdigest()


@lru_cache(1024)
def remove_course_imports(text: str) -> str:
    """Return a module's text without the lines that import from the bench and the kit."""
    gone = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            gone.update(range(node.lineno, node.end_lineno + 1))
    lines = text.splitlines()
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)


@lru_cache(1024)
def read_code(text: str) -> str:
    """Return a module's text without docstrings, comments and blank lines.

    The marks of solutions, such as `### END SOLUTION`, stay.
    """
    lines, gone, quoted = text.splitlines(), set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("###"):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            if docstring.lineno > getattr(node, "lineno", 0):  # on lines of its own
                gone.update(range(docstring.lineno, docstring.end_lineno + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            quoted.update(range(node.lineno, node.end_lineno + 1))
    kept = (
        line for number, line in enumerate(lines, 1)
        if number not in gone and (line or number in quoted)
    )  # fmt: skip
    return "\n".join(kept)


def input_files(text: str, root: Path) -> set[Path]:
    """Return the labs, data and checks that a program names, and those that these name in turn."""
    labs = {path.stem: path for path in (root / "chapters").glob("ch*/labs/*.py")}
    others = {path.name: path for path in (root / "chapters").glob("ch*/labs/*/*")}  # tables
    folders = exercise_folders()
    found, texts = set(), [text]
    for number in sorted(find_checks(text).keys() & folders.keys()):
        found |= modules_behind(folders[number] / "check.py")
    found = {path for path in found if not path.stem.endswith("truth")}
    texts += [read_code(path.read_text(encoding="utf-8")) for path in found]
    while texts:
        text = texts.pop()
        named = {labs[name] for name in lab_names(text) & labs.keys()}
        for path in named - found:
            texts.append(read_code(path.read_text(encoding="utf-8")))
        found |= named | {path for name, path in others.items() if name in text}
    return found


@lru_cache(512)
def lab_names(text: str) -> frozenset[str]:
    """Return every word of a program in a position where the name of a lab may be."""
    return frozenset(filter(None, (name for match in LABS.findall(text) for name in match)))


def modules_behind(check: Path) -> set[Path]:
    """Return a check's module and the modules of chapters that it imports, directly or not."""
    found, left = set(), [check]
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += list_imported_modules(module)
    return found


@cache
def list_imported_modules(module: Path) -> list[Path]:
    """Return the files of chapters' modules that a module imports: `.pieces`, `..tasks`."""
    found = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (folder := find_import_source(node, module)):
            names = [folder, *(folder / alias.name for alias in node.names)]
            found += [path.with_suffix(".py") for path in names]
    return [path for path in found if path.exists()]


def find_import_source(node: ast.ImportFrom, module: Path) -> Path | None:
    """Return the path from which a chapter's module imports names; None if it is in no chapter."""
    parts = (node.module or "").split(".")
    if node.level:
        return module.parents[node.level - 1].joinpath(*parts)
    is_content = parts[:2] == content.__name__.split(".")
    return FOLDER.joinpath(*parts[2:]) if is_content else None
