"""`lab`: a file of algorithms, with the learner's functions where they are written, else ours.

A lab is made from two files: labs/topic.py, in which the learner fills holes, and
solutions/labs/topic.py. A function that still has its hole is taken from the second and runs
next to the learner's own. A lab that imports another one gets that one in the same way. The
notebook reads these files again whenever they have changed; ranks get the text that it has read.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from pedagogy_lib.basics.errors import WrongInput, need
from pedagogy_lib.basics.folders import COURSE, OWN
from pedagogy_lib.basics.screen import say
from pedagogy_lib.basics.units import brief

from .holes import numbers_in
from .module import LabModule
from .snapshot import Snapshot

ROOT = COURSE


def lab(name: str, ours: str | Iterable[str] = ()) -> "Lab":
    """Return the functions of labs/`name`.py; a line says whose those with an exercise are.

    Give it to a launch like any module: each rank reads the newest version of the file.

    ours    functions to take from the solution although the learner has begun them, here or in the
            labs that this one imports, so that half-written ones hold up nothing. One list may do
            for several labs: the names of functions in other labs change nothing here
    Raises  WrongInput if there is no such lab, or no such function in any
    """
    names = [ours] if isinstance(ours, str) else ours
    need(isinstance(names, Iterable), f"ours is a name, or a list of names, not {brief(ours)}")
    has_any = any((ROOT / "solutions" / "labs").glob("*.py"))
    need(has_any or not names, "ours=: this copy of the course has no solutions; leave it out")
    found = find_lab(name, frozenset(map(str, names)))
    taken = found._list_solution_functions()
    if found._newest().has_news():
        say(found.status())
    if taken:
        say(f"as you asked, the solution's: {', '.join(taken)}")
    return found


def find_lab(name: str, ours: frozenset[str] = frozenset()) -> "Lab":
    """Return the lab of this name; in a notebook of solutions/, the solved one."""
    solved = ROOT / "solutions" / "labs"
    folder = solved if Path.cwd() == solved.parent.resolve() else ROOT / "labs"
    path = folder / f"{name}.py"
    known = sorted(path.stem for path in folder.glob("*.py"))
    need(
        known,
        f"there are no labs in {ROOT}: they come with the course, not with pedagogy_lib; set {OWN} "
        "to the course's folder, and restart the kernel",
    )
    need(name in known, f"there is no lab {brief(name)}; there are: {', '.join(known)}")
    return Lab(name, path, solved / path.name, tell=True, snapshot=Snapshot(ours=ours))


def exercises_in(folder) -> set[str]:
    """Return the functions with an exercise in all labs of a folder."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py"))
    return {name for tree in trees for name in numbers_in(tree)}


class Lab:
    """The functions of one lab, as its attributes. It shows itself as a line: whose is which.

    tell      whether to print that line again when an edit has changed it
    snapshot  the files as a launch, or a lab that imports this one, has read them
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
        places = self._name, str(self._path), str(self._solution)
        return Lab, (*places, False, Snapshot(ours=self._snapshot.ours))

    def __repr__(self):
        return self.status()

    def status(self) -> str:
        """Return `all_reduce_ring: yours · all_to_all: ours`, and the file's problem, if any."""
        return self._newest().status()

    def _newest(self) -> "LabModule":
        """Return the lab as its files are now; print its status if an edit has changed it."""
        is_current = self._snapshot.is_current()
        if self._loaded is None or not is_current:
            snapshot = self._snapshot if is_current else Snapshot(ours=self._snapshot.ours)
            loaded = self._load(snapshot)  # after an interrupt, it is done again
            before, self._snapshot, self._loaded = self._loaded, snapshot, loaded
            if self._tell and before is not None and before.status() != self._loaded.status():
                say(self._loaded.status())
        return self._loaded

    def _load(self, snapshot) -> "LabModule":
        solution = self._solution if snapshot.exists(self._solution) else None
        snapshot.add(self._path, self._solution)
        with snapshot.mark_running(self._path):
            return LabModule(self._name, self._path, solution, snapshot, Lab)

    def _list_solution_functions(self) -> list[str]:
        """Return the functions to take from the solution; raise WrongInput for those in no lab."""
        known = self._newest().functions()
        if unknown := self._snapshot.ours - set(known):
            unknown = ", ".join(sorted(unknown - exercises_in(self._solution.parent)))
        if unknown:
            raise WrongInput(
                f"ours={unknown!r}: there is no such function with an exercise in "
                f"labs/{self._path.name} or what it imports; there are: {', '.join(known)}"
            )
        return sorted(self._snapshot.ours & set(known))

    def _resolve_import(self, names):
        """Return the object that `from … import names` reads: this lab, or its module for `*`."""
        for name in names or ():
            if name != "*" and not hasattr(self, name):
                problem = self._newest().problem.splitlines()[:1]
                missing = f"labs/{self._path.name} has no {name!r}"
                raise ImportError(": ".join([missing, *problem]))
        return self._newest().module if "*" in (names or ()) else self

    def _reduce_for_ranks(self, one_version):
        """Return the lab as it travels to ranks: with the files as they are now.

        one_version  takes a path and contents, and returns those that the launch's other labs have
        """
        snapshot = self._newest().snapshot
        contents = {path: one_version(path, data) for path, data in snapshot.contents.items()}
        places = self._name, str(self._path), str(self._solution)
        return Lab, (*places, False, snapshot.freeze_contents(contents))


class LabFunction:
    """One function of a lab, which each rank reads anew."""

    def __init__(self, lab, name):
        self.lab, self.__name__ = lab, name

    def __call__(self, *args, **kwargs):
        return getattr(self.lab, self.__name__)(*args, **kwargs)
