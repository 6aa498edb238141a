"""Snapshots of labs' files: each file is read once, and all of them as they are at one time."""

import ast
import contextlib
import io
import linecache
import time
import tokenize
from functools import lru_cache
from pathlib import Path

from .holes import statements_in

SETTLED_SECONDS = 0.05  # since the last change: then the file counts as complete
EMPTY_SECONDS = 1.0  # the same for an empty file: an editor empties a file before it writes it
MOST_SECONDS = 2.0  # to wait for that


class Snapshot:
    """The contents of some labs, and of the labs that they import, at one time.

    contents  {file: its bytes, or the error on reading it}
    problems  {learner's file: the problem that the notebook has found}
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
        self.imported: dict[Path, object] = {}  # labs that others import

    def freeze_contents(self, contents) -> "Snapshot":
        """Return a copy to send to ranks; `contents` are equal to those here."""
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
            with contextlib.suppress(Exception):  # running the file reports the error
                names |= find_imports(self.parse(file))
        for other in (path.with_name(f"{name}.py") for name in sorted(names)):
            if other.exists():
                self.add(other, solution_beside(path, solution, other.stem))

    @contextlib.contextmanager
    def mark_running(self, path):
        """Mark the lab at `path` as running in the block. Raises ImportError if it already is."""
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
        """Return a line of a file, stripped; "" if `number` is None."""
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
    """Return the path that the solution of `name` has, or would have: `path` imports that lab."""
    folder = solution.parent if solution else path.parents[1] / "solutions" / "labs"
    return folder / f"{name}.py"


def find_imports(tree) -> set[str]:
    """Return the modules that a program may import, at its start or in a function."""
    nodes = list(statements_in(tree))
    plain = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return plain | {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}


def state_of(path) -> tuple | None:
    """Return the time of a file's last change, and its size; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def read_when_settled(path) -> tuple[tuple | None, bytes | OSError]:
    """Return the state of a file and its contents, once it is no longer being written.

    Editors save in pieces: the file is empty, too short or missing for a moment.
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
    """Return the text of a program. Raises SyntaxError if its declared encoding is wrong."""
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
    """Return a shared tree that must not change: most labs stay the same when one is edited."""
    return ast.parse(text)
