"""`python -m pedagogy_lib update`: a newer handout in the learner's folder, with no work lost.

All new files are first written into a separate folder. The files that they replace are then copied
into a folder with the day in its name, and only then is each new file put in its place, at once.
After an interruption, call it again: HANDOUT.json comes last, and finished steps are kept.
"""

import hashlib
import json
import os
import shutil
from datetime import date
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.folders import COURSE

from ..definitions import Program, merge_functions, select_functions
from .handout_reader import Handout, handout_at
from .notebook_merges import merge_notebooks, read_notebook
from .working_copies import HANDOUT, ORIGINALS, WORK

STAGED = ".update"


def update(path: str, course: Path = COURSE) -> list[str]:
    """Bring a learner's folder to a newer handout; return what the learner should know.

    path    the new handout: a folder, or a zip
    Raises  WrongInput if `path` or the learner's folder is no handout
    """
    about = course / HANDOUT
    need(about.exists(), f"{course} is no handout: there is no {HANDOUT}. Call this in yours")
    new, old = handout_at(path), json.loads(about.read_text(encoding="utf-8"))
    if new.version == old["version"]:
        return [f"This is version {new.version} already."]
    return Update(course, old, new).make()


class Update:
    """An update of one folder: `wanted` is {path: new contents}; replaced files go to `kept`."""

    def __init__(self, course: Path, old: dict, new: Handout):
        self.course, self.old, self.new = course, old, new
        self.told: list[str] = []
        self.wanted: dict[str, bytes] = {}
        self.kept = free_folder(course)

    def make(self) -> list[str]:
        """Bring the folder to the new handout; return lines that say what was done."""
        for name, data in self.new.files.items():
            self.plan(name, data)
        for name in sorted(self.new.files):
            if name.startswith("notebooks/"):
                self.plan_copy(name)
        gone = [name for name in self.old["files"] if self.is_left_over(name)]
        self.wanted = {name: data for name, data in self.wanted.items() if data != self.now(name)}
        replaced = [name for name in [*self.wanted, *gone] if (self.course / name).exists()]
        self.stage()
        self.keep(replaced)
        self.put_in_place(gone)
        versions = f"{self.old['version']} → {self.new.version}"
        return [f"Updated: {versions}.", *self.told,
                f"What was replaced is in {self.kept.name}/, with your comments outside of "
                "functions."]  # fmt: skip

    def now(self, name) -> bytes | None:
        path = self.course / name
        return path.read_bytes() if path.is_file() else None

    def is_as_it_came(self, name) -> bool:
        data = self.now(name)
        return data is None or hashlib.sha256(data).hexdigest() == self.old["files"].get(name)

    def plan(self, name, data):
        is_lab = name.startswith("labs/") and name.endswith(".py")
        if is_lab and not self.is_as_it_came(name) and self.now(name) != data:
            data = self.merge_lab(name, data)
        elif not self.is_as_it_came(name) and self.now(name) != data and name != HANDOUT:
            self.told.append(f"{name}: yours was another one; it is in {self.kept.name}/")
        self.wanted[name] = data

    def merge_lab(self, name, data) -> bytes:
        """Return the new lab with the learner's functions."""
        new = Program(data.decode())
        try:
            mine = Program(self.now(name).decode())
        except (SyntaxError, UnicodeDecodeError) as error:
            self.told.append(f"{name}: yours cannot be read ({error}), so that nothing is taken "
                             f"over; it is in {self.kept.name}/")  # fmt: skip
            return data
        before = self.old.get("functions", {}).get(name, {})
        carried, lost = select_functions(new, mine, before)
        self.told += [f"{name}: {function} is yours" for function in carried]
        self.told += [f"{name}: {function} has changed in the handout, and is taken from there; "
                      f"yours is in {self.kept.name}/" for function in lost]  # fmt: skip
        result = merge_functions(new, mine, carried)
        own = Program(result).nodes.keys() | before.keys() | set(lost)
        where = f"is in {self.kept.name}/ alone: nothing that was taken over calls it"
        self.told += [f"{name}: {one} {where}" for one in mine.nodes if one not in own]
        return result.encode()

    def plan_copy(self, name):
        """Plan new contents for the learner's copy of a notebook, and for its original version."""
        stem = name.removeprefix("notebooks/")
        copy, original, data = f"{WORK}/{stem}", f"{WORK}/{ORIGINALS}/{stem}", self.new.files[name]
        if self.now(copy) is None or self.now(original) == data:
            return
        mine, before = (read_notebook(self.now(one) or b"") for one in (copy, original))
        if mine is None or before is None:
            self.told.append(f"{copy} cannot be read: it stays as it is")
            return
        result, taken = merge_notebooks(mine, before, read_notebook(data))
        self.told += [f"{copy}: {function} is yours" for function in taken]
        self.wanted |= {copy: encode_notebook(result), original: data}

    def is_left_over(self, name) -> bool:
        """Return whether only the old handout has a file; labs with the learner's work stay."""
        if name in self.new.files or not (self.course / name).exists():
            return False
        if name.startswith("labs/") and not self.is_as_it_came(name):
            self.told.append(f"{name} is not in the new handout; yours stays")
            return False
        return True

    def stage(self):
        shutil.rmtree(self.course / STAGED, ignore_errors=True)
        for name, data in self.wanted.items():
            path = self.course / STAGED / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def keep(self, names):
        for name in names:
            path = self.kept / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.course / name, path)

    def put_in_place(self, gone):
        """Replace the files, HANDOUT.json last: until then, the folder is of the old version."""
        for name in sorted(self.wanted, key=lambda name: name == HANDOUT):
            path = self.course / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == HANDOUT:
                for one in gone:
                    (self.course / one).unlink(missing_ok=True)
            os.replace(self.course / STAGED / name, path)
        shutil.rmtree(self.course / STAGED, ignore_errors=True)


def free_folder(course: Path) -> Path:
    """Return the path `kept-2026-03-01`, or `kept-2026-03-01-2` if that exists."""
    name = number = f"kept-{date.today()}"
    count = 1
    while (course / number).exists():
        count += 1
        number = f"{name}-{count}"
    return course / number


def encode_notebook(notebook) -> bytes:
    import nbformat

    return (nbformat.writes(notebook, version=4) + "\n").encode()
