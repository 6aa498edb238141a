"""The module of a lab: the learner's functions, and the solution's where these have holes."""

import ast
import builtins
import codeop
import contextlib
import inspect
import os
import sys
import traceback
from datetime import date, datetime
from pathlib import Path
from types import ModuleType

from pedagogy_lib.basics.screen import someone_watches
from pedagogy_lib.basics.text_wrap import COLUMNS

from .holes import (
    begun_in,
    first_holes,
    functions_in,
    is_class,
    is_hole,
    methods_with_holes,
    names_of,
    numbers_in,
)
from .snapshot import solution_beside


class NotSolvedYet(Exception):
    """An error for a function that is not written: it has its hole, and there is no solution."""


class Unwritten(type):
    """The type of a class that is not written: it refuses whatever is asked of the class."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        cls.__refuse__()


class LabModule:
    """The contents of a lab's files, as they were read at one time.

    module    the functions
    siblings  {name: Lab} of the labs that it imports
    whose     {function with an exercise: "yours", "ours" or "unwritten"}
    numbers   {function: number of its exercise}
    holes     {class of the learner's file with holes: its methods that have one}
    begun     the classes of which some holes are filled, as far as the solution tells
    to_write  {function of the learner's file with a hole: the line of the first one}
    problem   what is wrong with the learner's file, or ""
    definers  {name: the file whose statement has defined it last}
    make_lab  makes a lab from its name, its file, its solution, and `snapshot`
    """

    def __init__(self, name, path, solution, snapshot, make_lab):
        self.path, self.solution, self.snapshot, self.problem = path, solution, snapshot, ""
        self.siblings: dict[str, object] = {}
        self.make_lab = make_lab
        self.definers: dict[str, Path] = {}
        self.compile = codeop.Compile()  # remembers what is imported from __future__
        self.module = ModuleType(name)
        self.module.__file__ = str(path)
        self.module.__builtins__ = vars(builtins) | {"__import__": self.import_}
        ours = self.parse_solution()
        self.numbers = numbers_in(ours) if ours else {}
        mine = self.read_learners(path, ours)
        self.numbers = self.numbers or numbers_in(mine)
        self.holes = methods_with_holes(mine)
        self.to_write = first_holes(mine)
        self.begun = begun_in(mine, ours, snapshot.read(self.solution)) if ours else set()
        if ours:
            self.add_what_is_missing(ours, self.solution)
        self.whose = {name: self.owner(name) for name in self.numbers}

    def import_(self, name, namespace=None, scope=None, names=(), level=0):
        """Import another lab of this folder, or else do what `import` always does."""
        path = self.path.with_name(f"{name}.py")
        if not self.snapshot.exists(path):
            return builtins.__import__(name, namespace, scope, names, level)
        imported = self.snapshot.imported
        if path not in imported:  # two labs that import a third get the same one, as in Python
            solution = solution_beside(self.path, self.solution, name)
            imported[path] = self.make_lab(name, path, solution, snapshot=self.snapshot)
        self.siblings[name] = imported[path]
        return imported[path]._resolve_import(names)

    def parse_solution(self) -> ast.Module | None:
        """Return the solution or None; one that is not Python counts as none, and is reported."""
        try:
            return self.snapshot.parse(self.solution) if self.solution else None
        except Exception as error:
            if self.solution != self.path:
                self.problem = self.describe(self.solution, line_of(error, self.solution), error)
            self.solution = None
            return None

    def read_learners(self, path, ours) -> ast.Module:
        """Run the learner's file, with the solution's functions in place of those with a hole.

        Code that refers to them, such as a class that derives from one, gets the right ones. If the
        file fails, say why, and go on as if it were empty. A rank does what the notebook did: it
        goes on only if the notebook had to.
        """
        known, is_rank = self.snapshot.problems.get(path, ""), self.snapshot.is_fixed
        if known and is_rank:
            self.problem = known
            return ast.Module([], [])
        begun = None  # the line of the statement that runs
        try:
            tree = self.snapshot.parse(path)
            written = {node.name: node for node in functions_in(ours)} if ours else {}
            for node in tree.body:
                begun = node.lineno
                self.run_learners(node, written)
            return tree
        except (Exception, SystemExit) as error:
            if is_rank:
                raise convert_attribute_error(error) from None
            self.problem = self.describe(path, line_of(error, path) or begun, error)
        self.snapshot.problems[path] = self.problem
        for name in [name for name in vars(self.module) if not name.startswith("__")]:
            delattr(self.module, name)
        return ast.Module([], [])

    def describe(self, path, line, error) -> str:
        """Describe what is wrong with a file; `line` is None if the error is in no line."""
        place = os.path.join(".", f"{name_of(path)}:{line}") if line else name_of(path)
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        said = ": ".join(filter(None, [place, type(error).__name__, what]))
        text = self.snapshot.line(path, line)
        whose = "Your file" if path == self.path else "The solution"
        code = f"\n    {text}" if text else ""
        return f"{said}{code}\n{whose} cannot be read until this is fixed."

    def run_learners(self, node, written):
        """Run a statement of the learner's file; in place of a hole, ours or a refusal.

        written  {function: its definition in the solution}

        An exercise of the solution stays one if the learner has changed its docstring.
        """
        name = getattr(node, "name", None)
        is_exercise = name in self.numbers or numbers_in(ast.Module([node], []))
        is_put_back = name in self.snapshot.ours and name in written
        if not is_exercise or not (is_put_back or is_hole(node)):
            self.run(node, self.path)
        elif name in written:
            self.run(written[name], self.solution)
        else:
            setattr(self.module, name, self.refusal(node))
            self.definers.pop(name, None)

    def run(self, node, path):
        """Run a statement of the file at `path`, and note the names that it has defined."""
        before = dict(vars(self.module))
        code = self.compile(ast.Module([node], []), str(path), "exec")
        # While a class is made, sys.modules has the module: `dataclass` looks up annotations there.
        # Otherwise it has not: ranks cannot import it, so a function found there would not travel.
        with register_module(self.module) if is_class(node) else contextlib.nullcontext():
            exec(code, vars(self.module))
        after = vars(self.module).items()
        self.definers |= {name: path for name, value in after if before.get(name) is not value}

    def add_what_is_missing(self, tree, path):
        """Run those statements of the solution that define a name that is still missing."""
        for node in tree.body:
            if set(names_of(node)) - set(vars(self.module)):
                self.run(node, path)

    def owner(self, name) -> str:
        """Return whose function runs: ours if we wrote it, even if the learner gave it the name."""
        if name not in self.definers:
            return "unwritten"
        function = inspect.unwrap(getattr(self.module, name, None))
        code = getattr(function, "__code__", None)
        is_ours = self.definers[name] == self.solution or (
            code is not None and code.co_filename == str(self.solution)
        )
        # In a notebook of solutions/, the solution is the learner's file.
        return "ours" if is_ours and self.path != self.solution else "yours"

    def refusal(self, node):
        """Return a function or class that refuses its use, in place of one that is not written."""
        number = numbers_in(ast.Module([node], []))[node.name]

        def refuse(*args, **kwargs):
            raise NotSolvedYet(
                f"exercise {number} comes first: "
                f"{node.name} in labs/{self.path.name} still has its hole"
            )

        refusals = {"__init__": refuse, "__refuse__": refuse}
        return Unwritten(node.name, (), refusals) if is_class(node) else refuse

    def functions(self) -> list[str]:
        """Return the functions with an exercise, here and in the labs that this one imports."""
        found, todo, seen = set(self.numbers), list(self.siblings.values()), set()
        while todo:
            lab = todo.pop()
            if id(lab) not in seen:
                seen.add(id(lab))
                found |= set(lab._newest().numbers)
                todo += lab._newest().siblings.values()
        return sorted(found)

    def has_news(self) -> bool:
        """Return whether a learner has to know whose functions these are, or what is wrong."""
        return bool(self.whose or self.first_problem())

    def first_problem(self) -> str:
        """Return what is wrong with the learner's file, or else with a lab that it imports."""
        problems = [lab._newest().problem for lab in self.siblings.values()]
        return next(filter(None, [self.problem, *problems]), "")

    def status(self) -> str:
        parts = [f"{name}: {whose}" for name, whose in self.whose.items()]
        line = "\n".join(join_parts(f"{name_of(self.path)}, ", parts))
        everybody = set(self.whose.values())
        if not everybody:
            line = f"{name_of(self.path)}: without exercises"
        elif len(everybody) == 1:
            line = f"{name_of(self.path)}, all {len(self.whose)} functions: {everybody.pop()}"
        if self.problem and not self.whose:
            return self.problem
        problem = self.first_problem()
        return f"{problem} Until then:\n{line}" if problem else line


def join_parts(begin, parts) -> list[str]:
    """Join the parts with dots, in lines that are not too long for a notebook."""
    lines = [begin]
    for number, part in enumerate(parts):
        more = part + " ·" * (number + 1 < len(parts))
        if number and len(lines[-1]) + len(more) >= COLUMNS:
            lines.append("  ")
        elif number:
            more = f" {more}"
        lines[-1] += more
    return lines


@contextlib.contextmanager
def register_module(module):
    """Keep a module in sys.modules inside the block, unless another one has its name."""
    is_new = sys.modules.setdefault(module.__name__, module) is module
    try:
        yield
    finally:
        if is_new:
            del sys.modules[module.__name__]


def convert_attribute_error(error):
    """Return `error`, or a RuntimeError for an AttributeError, which would seem the lab's own."""
    if not isinstance(error, AttributeError):
        return error
    return RuntimeError(f"AttributeError: {error}").with_traceback(error.__traceback__)


def name_of(path) -> str:
    """Return a file's name as a learner knows it: `labs/collectives.py`."""
    folder = "solutions/labs" if path.parents[1].name == "solutions" else "labs"
    return f"{folder}/{path.name}" if path.parent.name == "labs" else str(path)


def line_of(error, path) -> int | None:
    """Return the innermost line of the file at `path` that an error came from, or None."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    steps = traceback.extract_tb(error.__traceback__)
    return next((step.lineno for step in reversed(steps) if step.filename == str(path)), None)


def describe_save_time(path) -> str:
    """Return when a file was saved, for a learner who may have changed it without saving it."""
    if not someone_watches():
        return ""
    saved = datetime.fromtimestamp(path.stat().st_mtime)
    day = "" if saved.date() == date.today() else f"{saved:%d %B %Y}, "
    return f", as saved at {day}{saved:%H:%M}"
