"""The files of labs: each is read once, and all of them as they are at one time."""

import ast
import contextlib
import io
import linecache
import time
import tokenize
from functools import lru_cache
from pathlib import Path

from .holes import statements_in

SETTLED_SECONDS = 0.05  # since the last change: then nobody is about to write more
EMPTY_SECONDS = 1.0  # the same for an empty file: an editor empties a file before it writes it
MOST_SECONDS = 2.0  # to wait for that


class Snapshot:
    """What some labs, and the labs that they import, hold at one time.

    contents  {file: its bytes, or the error on reading it}
    problems  {learner's file: what the notebook has found wrong with it}
    ours      functions that are the solution's, whatever the learner has written
    is_fixed  whether this came with a launch, so that ranks read no file
    """

    def __init__(self, contents=None, problems=None, ours=frozenset()):
        self.ours: frozenset[str] = ours
        self.is_fixed = contents is not None
        self.contents: dict[Path, bytes | OSError] = contents or {}
        self.problems: dict[Path, str] = problems or {}
        self.states: dict[Path, tuple | None] = {}
        self.trees: dict[Path, ast.Module] = {}
        self.running: list[Path] = []  # learners' files, each imported by the one before it
        self.imported: dict[Path, object] = {}  # the labs of those that others import

    def freeze_contents(self, contents) -> "Snapshot":
        """The same to send to ranks; `contents` are equal to those here."""
        return Snapshot(contents, self.problems, self.ours)

    def __reduce__(self):
        return Snapshot, (self.contents, self.problems, self.ours)

    def is_current(self) -> bool:
        return all(state_of(path) == state for path, state in self.states.items())

    def exists(self, path) -> bool:
        return path in self.contents if self.is_fixed else path.exists()

    def add(self, path, solution):
        """Read a lab, its solution if there is one, and the labs that either imports."""
        if self.is_fixed or path in self.contents:
            return
        names = set()
        for file in filter(Path.exists, [path, solution]):
            with contextlib.suppress(Exception):  # who runs that file will say why
                names |= find_imports(self.parse(file))
        for other in (path.with_name(f"{name}.py") for name in sorted(names)):
            if other.exists():
                self.add(other, solution_beside(path, solution, other.stem))

    @contextlib.contextmanager
    def mark_running(self, path):
        """Meanwhile the lab at `path` is run. Raises ImportError if it is already."""
        if path in self.running:
            raise ImportError(
                f"{path.name} and {self.running[-1].name} import each other, so neither can be "
                "first: leave one of these imports out"
            )
        self.running.append(path)
        try:
            yield
        finally:
            self.running.pop()

    def bytes_of(self, path) -> bytes:
        if path not in self.contents and not self.is_fixed:
            self.states[path], self.contents[path] = read_when_settled(path)
        content = self.contents.get(path, FileNotFoundError("the launch did not bring it along"))
        if isinstance(content, OSError):
            raise content
        return content

    def read(self, path) -> str:
        return decode(self.bytes_of(path), path)

    def line(self, path, number) -> str:
        """A line of a file, stripped; nothing of no line."""
        return self.read(path).splitlines()[number - 1].strip() if number else ""

    def parse(self, path) -> ast.Module:
        if path not in self.trees:
            text = self.read(path)
            if self.is_fixed:  # the file may have been saved since, and tracebacks show this text
                lines = text.splitlines(keepends=True)
                linecache.cache[str(path)] = len(text), None, lines, str(path)
            self.trees[path] = parse_text(text, path)
        return self.trees[path]


def solution_beside(path, solution, name) -> Path:
    """Where the solution of a lab is, or would be, that the lab at `path` imports."""
    folder = solution.parent if solution else path.parents[1] / "solutions" / "labs"
    return folder / f"{name}.py"


def find_imports(tree) -> set[str]:
    """The modules that a program may import, at its start or in a function."""
    nodes = list(statements_in(tree))
    plain = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return plain | {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}


def state_of(path) -> tuple | None:
    """When a file was changed, and its size; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def read_when_settled(path) -> tuple[tuple | None, bytes | OSError]:
    """The state of a file and what it holds, once nobody writes to it any more.

    Editors save in pieces: the file is empty, too short or not there for a moment.
    """
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        state = state_of(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            content = error
        is_whole = state == state_of(path) and is_settled(state)
        if is_whole or time.monotonic() > deadline:
            return state, content
        time.sleep(0.01)


def is_settled(state) -> bool:
    if state is None:
        return False
    changed, size = state
    age = time.time() - changed / 1e9
    return not 0 <= age < (SETTLED_SECONDS if size else EMPTY_SECONDS)


def decode(data, path) -> str:
    """The text of a program. Raises SyntaxError if it is not in the encoding that it declares."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (SyntaxError, UnicodeDecodeError):
        place = (str(path), None, None, None)
        raise SyntaxError("Python cannot decode it: save it as UTF-8", place) from None


def read(path) -> str:
    return decode(path.read_bytes(), path)


def parse(path) -> ast.Module:
    return parse_text(read(path), path)


def parse_text(text, path) -> ast.Module:
    try:
        return tree_of(text)
    except SyntaxError:
        return ast.parse(text, str(path))  # raises it again, with the file's name


@lru_cache(256)
def tree_of(text) -> ast.Module:
    """Nobody changes it: most labs stay as they are when one is edited."""
    return ast.parse(text)
