"""`lab`: a file of algorithms, with the learner's functions where they are written, else ours.

A lab is learnt from two files: labs/topic.py, in which the learner fills holes, and
solutions/labs/topic.py. A function that still has its hole is taken from the second and runs
beside the learner's own. Where a lab imports another one, it gets that one in the same way. The
notebook reads these files again whenever they have changed; ranks get the text that it has read.
"""

import ast
import builtins
import codeop
import contextlib
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ..basics.screen import say
from .lab_files import Snapshot, solution_beside
from .lab_holes import (
    begun_in,
    functions_in,
    is_class,
    is_hole,
    methods_with_holes,
    names_of,
    numbers_in,
)

ROOT = Path(__file__).parents[2]


class NotSolvedYet(Exception):
    """A function that nobody has written: its hole is there, and no solution."""


class Unwritten(type):
    """The type of a class that nobody has written: whatever one asks of it is refused."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        cls.__refuse__()


def lab(name: str) -> "Lab":
    """The functions of labs/`name`.py, and a line that says whose they are.

    Give it to a launch like any module: each rank reads the newest version of the file.
    Raises  ValueError if there is no such lab
    """
    found = find_lab(name)
    say(found.status())
    return found


def find_lab(name: str) -> "Lab":
    """The lab of this name; in a notebook of solutions/ the solved one."""
    solved = ROOT / "solutions" / "labs"
    folder = solved if Path.cwd() == solved.parent else ROOT / "labs"
    path = folder / f"{name}.py"
    if not path.exists():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.py")))
        raise ValueError(f"there is no lab {name!r}; there are: {known}")
    return Lab(name, path, solved / path.name, tell=True)


class Lab:
    """The functions of one lab, as its attributes. Shows itself as a line: whose is which.

    tell      whether to print that line again when an edit has changed it
    snapshot  the files as somebody else has read them: a launch, or a lab that imports this one
    """

    def __init__(self, name, path, solution, tell=False, snapshot=None):
        self._name, self._path, self._solution = name, Path(path), Path(solution)
        self._tell, self._loaded, self._snapshot = tell, None, snapshot or Snapshot()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        module = self._newest().module
        if not hasattr(module, name):
            raise AttributeError(f"labs/{self._path.name} has no {name!r}")
        return getattr(module, name)

    def __setattr__(self, name, value):
        if not name.startswith("_"):
            raise AttributeError(
                f"a lab is changed in its file, labs/{self._path.name}: {name} set from outside "
                "would reach neither its other functions nor the ranks"
            )
        super().__setattr__(name, value)

    def __dir__(self):
        return list(vars(self._newest().module))

    def __reduce__(self):
        return Lab, (self._name, str(self._path), str(self._solution))

    def __repr__(self):
        return self.status()

    def status(self) -> str:
        """`all_reduce_ring: yours · all_to_all: ours`, and what is wrong with the file, if so."""
        return self._newest().status()

    def _newest(self) -> "Loaded":
        """The lab as its files are now; tells the learner if an edit has changed whose is which."""
        is_current = self._snapshot.is_current()
        if self._loaded is None or not is_current:
            snapshot = self._snapshot if is_current else Snapshot()
            loaded = self._load(snapshot)  # if that is interrupted, it is done again
            before, self._snapshot, self._loaded = self._loaded, snapshot, loaded
            if self._tell and before is not None and before.status() != self._loaded.status():
                say(self._loaded.status())
        return self._loaded

    def _load(self, snapshot) -> "Loaded":
        solution = self._solution if snapshot.exists(self._solution) else None
        snapshot.add(self._path, self._solution)
        with snapshot.being_run(self._path):
            return Loaded(self._name, self._path, solution, snapshot)

    def _giving(self, names):
        """What `from … import names` takes them from: Python asks a module alone for `*`."""
        for name in names or ():
            if name != "*" and not hasattr(self, name):
                problem = self._newest().problem.splitlines()[:1]
                missing = f"labs/{self._path.name} has no {name!r}"
                raise ImportError(": ".join([missing, *problem]))
        return self._newest().module if "*" in (names or ()) else self

    def _reduce_for_ranks(self, one_version):
        """How it travels to ranks: with the files as they are now.

        one_version  gets their contents, and returns them as the other labs of the launch have them
        """
        snapshot = self._newest().snapshot
        contents = {path: one_version(path, data) for path, data in snapshot.contents.items()}
        places = self._name, str(self._path), str(self._solution)
        return Lab, (*places, False, snapshot.fixed(contents))


class Loaded:
    """What was read from the files of a lab, at one time.

    module    the functions
    siblings  {name: Lab} of the labs that it imports
    whose     {function with an exercise: "yours", "ours" or "nobody's"}
    numbers   {function: number of its exercise}
    holes     {class of the learner's file with holes: its methods that have one}
    begun     those classes of which some holes are filled, as far as the solution tells
    problem   what is wrong with the learner's file, or ""
    definers  {name: the file whose statement has defined it last}
    """

    def __init__(self, name, path, solution, snapshot):
        self.path, self.solution, self.snapshot, self.problem = path, solution, snapshot, ""
        self.siblings: dict[str, Lab] = {}
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
        self.begun = begun_in(mine, ours, snapshot.read(self.solution)) if ours else set()
        if ours:
            self.add_what_is_missing(ours, self.solution)
        self.whose = {name: self.owner(name) for name in self.numbers}

    def import_(self, name, namespace=None, scope=None, names=(), level=0):
        """What `import` means in a lab: another lab beside it, or else what it always means."""
        path = self.path.with_name(f"{name}.py")
        if not self.snapshot.exists(path):
            return builtins.__import__(name, namespace, scope, names, level)
        if name not in self.siblings:
            solution = solution_beside(self.path, self.solution, name)
            self.siblings[name] = Lab(name, path, solution, snapshot=self.snapshot)
        return self.siblings[name]._giving(names)

    def parse_solution(self) -> ast.Module | None:
        """The solution, if there is one; one that is no Python counts as none, and is told."""
        try:
            return self.snapshot.parse(self.solution) if self.solution else None
        except Exception as error:
            if self.solution != self.path:
                self.problem = self.describe(self.solution, line_of(error, self.solution), error)
            self.solution = None
            return None

    def read_learners(self, path, ours) -> ast.Module:
        """Run the learner's file, with the solution's functions in place of those with a hole.

        So whatever refers to them, such as a class that derives from one, gets the right ones. If
        the file fails, say why, and go on as if it were empty. A rank does what the notebook did:
        it goes on only if the notebook had to.
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
                raise passing_hasattr(error) from None
            self.problem = self.describe(path, line_of(error, path) or begun, error)
        self.snapshot.problems[path] = self.problem
        for name in [name for name in vars(self.module) if not name.startswith("__")]:
            delattr(self.module, name)
        return ast.Module([], [])

    def describe(self, path, line, error) -> str:
        """What is wrong with a file; `line` is None if it is in no line."""
        place = f"{name_of(path)}, line {line}" if line else name_of(path)
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        said = ": ".join(filter(None, [place, type(error).__name__, what]))
        text = self.snapshot.line(path, line)
        whose = "Your file" if path == self.path else "The solution"
        code = f"\n    {text}" if text else ""
        return f"{said}{code}\n{whose} cannot be read until this is fixed."

    def run_learners(self, node, written):
        """Run a statement of the learner's file; of a hole, what is in `written`, or a refusal.

        What is an exercise with us stays one if the learner has changed its docstring.
        """
        name = getattr(node, "name", None)
        is_exercise = name in self.numbers or numbers_in(ast.Module([node], []))
        if not is_exercise or not is_hole(node):
            self.run(node, self.path)
        elif name in written:
            self.run(written[name], self.solution)
        else:
            setattr(self.module, name, self.refusal(node))
            self.definers.pop(name, None)

    def run(self, node, path):
        """Run a statement of the file at `path`, and note what it has defined."""
        before = dict(vars(self.module))
        code = self.compile(ast.Module([node], []), str(path), "exec")
        # A class is found while it is made: `dataclass` looks there for what annotations name.
        # Nothing else is: ranks cannot import it, so a function that is found would not travel.
        with listed(self.module) if is_class(node) else contextlib.nullcontext():
            exec(code, vars(self.module))
        after = vars(self.module).items()
        self.definers |= {name: path for name, value in after if before.get(name) is not value}

    def add_what_is_missing(self, tree, path):
        """Run those statements of the solution that define something not there yet."""
        for node in tree.body:
            if set(names_of(node)) - set(vars(self.module)):
                self.run(node, path)

    def owner(self, name) -> str:
        """Whose function runs: ours if we wrote it, even if the learner gave it the name."""
        if name not in self.definers:
            return "nobody's"
        function = inspect.unwrap(getattr(self.module, name, None))
        code = getattr(function, "__code__", None)
        is_ours = self.definers[name] == self.solution or (
            code is not None and code.co_filename == str(self.solution)
        )
        # In a notebook of solutions/, the solution is the learner's file.
        return "ours" if is_ours and self.path != self.solution else "yours"

    def refusal(self, node):
        """In place of a function, or a class, that nobody has written."""
        number = numbers_in(ast.Module([node], []))[node.name]

        def refuse(*args, **kwargs):
            raise NotSolvedYet(
                f"exercise {number} comes first: "
                f"{node.name} in labs/{self.path.name} still has its hole"
            )

        refusals = {"__init__": refuse, "__refuse__": refuse}
        return Unwritten(node.name, (), refusals) if is_class(node) else refuse

    def status(self) -> str:
        parts = " · ".join(f"{name}: {whose}" for name, whose in self.whose.items())
        line = f"{name_of(self.path)}, {parts}"
        everybody = set(self.whose.values())
        if not everybody:
            line = f"{name_of(self.path)}: without exercises"
        elif len(everybody) == 1:
            line = f"{name_of(self.path)}, all {len(self.whose)} functions: {everybody.pop()}"
        problems = [lab._newest().problem for lab in self.siblings.values()]
        problem = next(filter(None, [self.problem, *problems]), "")
        return f"{problem} Until then:\n{line}" if problem else line


@contextlib.contextmanager
def listed(module):
    """Meanwhile a module is in sys.modules, unless another one has its name."""
    is_new = sys.modules.setdefault(module.__name__, module) is module
    try:
        yield
    finally:
        if is_new:
            del sys.modules[module.__name__]


def passing_hasattr(error):
    """`error`, or one that Python does not take for a lab without the attribute that it wants."""
    if not isinstance(error, AttributeError):
        return error
    return RuntimeError(f"AttributeError: {error}").with_traceback(error.__traceback__)


def name_of(path) -> str:
    """`labs/collectives.py`, as a learner knows it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def line_of(error, path) -> int | None:
    """The innermost line of the file at `path` that an error came from, or None."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    steps = traceback.extract_tb(error.__traceback__)
    return next((step.lineno for step in reversed(steps) if step.filename == str(path)), None)
