"""The form in which a class has handed in, and the owners of its files."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from . import course
from .files import JUNK, clean_name
from .repositories import is_bare

EXCHANGE = re.compile(
    r"(?P<student>[^+]+)\+(?P<assignment>[^+]+)\+"
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d[:.]\d\d[:.]\d\d)[^+]*(?:\+.*)?",
    re.DOTALL,
)  # fmt: skip
MOODLE = re.compile(
    r"(?P<student>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL
)
CANVAS = re.compile(
    r"(?P<student>[^_]+)_(?P<late>LATE_|late_)?(?P<user>\d+)_(?P<id>\d+)_(?P<name>.+)", re.DOTALL
)
AGAIN = re.compile(r"-(\d+)$")  # Canvas adds it to a file that is handed in again
HAND_IN = {"labs", "work", "notebooks"}
HANDED_IN = "hand-in-"  # the prefix of an archive of `make hand-in`


@dataclass
class Owner:
    """The owner of one submission and its paths; `turn` orders several to the same assignment."""

    student: str
    paths: list[Path] = field(default_factory=list)
    turn: float = 0.0
    said: list[str] = field(default_factory=list)
    assignment: str = ""


def owners_in(folder: Path) -> tuple[str, list[Owner]]:
    """Return the layout that was recognised, and the owners of the files."""
    for inner in ("submitted", "inbound"):
        if (folder / inner).is_dir():
            return owners_in(folder / inner)
    entries = [path for path in sorted(folder.iterdir()) if not is_junk(path)]
    for layout, recognise in LAYOUTS.items():
        if owners := recognise(folder, entries):
            return layout, owners
    return "empty folder", []


def is_junk(path) -> bool:
    return bool(JUNK.search(path.name)) or path.name.startswith(".")


def is_program(path) -> bool:
    return path.suffix.lower() in (".ipynb", ".py")


def student_in(text) -> str:
    return clean_name(text)


# ---- Functions of a folder and its entries that return its owners, or None for other layouts -----


def one_submission(folder, entries):
    """Recognise a learner's own folder of the course, or the contents of one archive."""
    has_parts = any(e.is_dir() and e.name in HAND_IN for e in entries)
    stems = {course.stem_of(e.name) for e in entries if is_program(e)}
    parts = {path.stem for path in course.notebooks()}
    if has_parts or (stems & parts and not any(e.is_dir() for e in entries)):
        return [Owner(student_in(folder.resolve().name), [folder])]


def exchange(folder, entries):
    matches = [(EXCHANGE.fullmatch(entry.name), entry) for entry in entries]
    if not any(match for match, _ in matches):
        return None
    return [
        Owner(student_in(match["student"]), [entry], seconds_of(match["time"]),
              assignment=clean_name(match["assignment"]))
        if match else Owner(student_in(entry.name), [entry])
        for match, entry in matches
    ]  # fmt: skip


def seconds_of(text) -> float:
    """Return the timestamp of a UTC time as nbgrader writes it, or 0.0 for any other text."""
    digits = [int(number) for number in re.findall(r"\d+", text)[:6]]
    try:
        return datetime(*digits, tzinfo=timezone.utc).timestamp()
    except (ValueError, TypeError):
        return 0.0


def nbgrader(folder, entries):
    """Recognise submitted/STUDENT/ASSIGNMENT/…."""
    is_named = folder.name == "submitted"
    if not is_named and not any(folder.glob("*/*/timestamp.txt")):
        return None
    return [
        Owner(student_in(entry.name), [path], assignment=name)
        for entry in entries if entry.is_dir()
        for name, path in assignments_in(entry)
    ]  # fmt: skip


def assignments_in(folder) -> list[tuple[str, Path]]:
    """Return (name, folder) of each assignment in a student's folder, or the folder itself."""
    inside = [path for path in sorted(folder.iterdir()) if not is_junk(path)]
    folders = [path for path in inside if path.is_dir() and not path.is_symlink()]
    is_one = any(path.name in HAND_IN for path in folders) or any(map(is_program, inside))
    return [("", folder)] if is_one or not folders else [(clean_name(p.name), p) for p in folders]


def moodle(folder, entries):
    return group_entries(entries, MOODLE, lambda match: (match["student"], match["id"]))


def canvas(folder, entries):
    owners = group_entries(entries, CANVAS, lambda match: (match["student"], match["user"]))
    for owner in owners or []:
        matches = [CANVAS.fullmatch(path.name) for path in owner.paths]
        if any(match and match["late"] for match in matches):
            owner.said.append("handed in late, says Canvas")
        owner.paths = newest_versions(owner)
    return owners


def newest_versions(owner) -> list[Path]:
    """Return the last of files that were handed in again: `hw.zip`, `hw-1.zip`, `hw-2.zip`."""
    newest: dict[str, tuple[int, Path]] = {}
    for path in owner.paths:
        match = CANVAS.fullmatch(path.name)
        name = Path(match["name"]) if match else path
        again = AGAIN.search(name.stem)
        key = AGAIN.sub("", name.stem) + name.suffix
        version = int(again[1]) if again else 0
        if key in newest:
            owner.said.append(f"{clean_name(key)} was handed in several times: the newest counts")
        if key not in newest or version > newest[key][0]:
            newest[key] = version, path
    return [path for _, path in newest.values()]


def group_entries(entries, pattern, key_of):
    """Group entries with the same key under one owner; give others an owner each."""
    if not any(pattern.fullmatch(entry.name) for entry in entries):
        return None
    owners: dict[tuple, Owner] = {}
    for entry in entries:
        match = pattern.fullmatch(entry.name)
        student = match["student"] if match else entry.stem
        key = key_of(match) if match else (entry.name,)
        owners.setdefault(key, Owner(student_in(student))).paths.append(entry)
    return disambiguate_names(owners)


def disambiguate_names(owners) -> list[Owner]:
    """Add the platform's number to the names of students who share a name."""
    names = [owner.student for owner in owners.values()]
    for key, owner in owners.items():
        if names.count(owner.student) > 1 and len(key) > 1:
            owner.student = f"{owner.student} ({key[1]})"
    return list(owners.values())


def repositories(folder, entries):
    if not any((entry / ".git").exists() or is_bare(entry) for entry in entries):
        return None
    return [Owner(student_in(entry.name.removesuffix(".git")), [entry]) for entry in entries]


def each_its_own(folder, entries):
    """Recognise folders, archives or single notebooks, each of which has its student's name."""
    kept = [e for e in entries if e.is_dir() or is_program(e) or e.suffix.lower() == ".zip"]
    names = [(e.name if e.is_dir() else e.stem).removeprefix(HANDED_IN) for e in kept]
    return [Owner(student_in(name), [entry]) for name, entry in zip(names, kept)]


LAYOUTS = {
    "nbgrader's exchange": exchange,
    "Moodle's download": moodle,
    "Canvas' download": canvas,
    "one submission": one_submission,
    "nbgrader's submitted folder": nbgrader,
    "git repositories": repositories,
    "a folder, an archive or a notebook for each student": each_its_own,
}
