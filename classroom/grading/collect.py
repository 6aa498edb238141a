"""The submissions of a class: who has handed in what."""

import tempfile
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pedagogy_lib.basics.errors import WrongInput

from .assignments import that_fit
from .files import DAMAGED, MOST_ENTRIES, Pile, clean_name, explain_refusal, read_path
from .layouts import Owner, owners_in, seconds_of
from .repositories import is_bare, read_bare

MOST_DOWNLOAD_BYTES = 4 * 2**30


@dataclass
class Submission:
    """The work that one student has handed in; `came_from` is the file or folder that counts."""

    student: str
    came_from: str
    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def collect(path: Path, asked=()) -> tuple[str, list[Submission]]:
    """Return the layout that was recognised, and the submissions in the order of students' names.

    path    a folder, or the archive that Canvas or Moodle gives for the whole class
    asked   exercises: of several assignments, those count that ask for one of them; else all
    Raises  WrongInput if there is nothing at the path, or no such assignment
    """
    if path.is_dir():
        return collect_folder(path, asked)
    if path.suffix.lower() != ".zip" or not path.is_file():
        raise WrongInput(f"{path} is no folder of submissions: write SUBMISSIONS=folder")
    with tempfile.TemporaryDirectory(prefix="submissions-") as folder:
        unpack(path, Path(folder, clean_name(path.stem).replace("/", " ")))
        return collect_folder(next(Path(folder).iterdir()), asked)


def unpack(path, folder):
    """Unpack a platform's archive of a whole class onto the disk."""
    folder.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [one for one in archive.infolist() if not explain_refusal(one)]
            total = sum(one.file_size for one in entries)
            if total > MOST_DOWNLOAD_BYTES or len(entries) > 100 * MOST_ENTRIES:
                raise WrongInput(f"{path} unpacks to {total / 1e9:.0f} GB: unpack it yourself")
            archive.extractall(folder, entries)
    except DAMAGED as error:
        raise WrongInput(f"{path} cannot be unpacked: {error}") from None


def collect_folder(folder, asked) -> tuple[str, list[Submission]]:
    layout, owners = owners_in(folder)
    owners, said = that_fit(owners, asked)
    tries: dict[tuple[str, str], list[tuple[float, Owner, Pile]]] = defaultdict(list)
    for owner in owners:
        pile = pile_of(owner)
        tries[owner.student, owner.assignment].append((owner.turn or when(pile), owner, pile))
    by_student: dict[str, dict[str, Submission]] = defaultdict(dict)
    for (student, assignment), some in tries.items():
        by_student[student][assignment] = newest_of(student, some)
    found = [merge_submissions(student, some) for student, some in by_student.items()]
    return layout + said, sorted(found, key=lambda one: one.student.casefold())


def merge_submissions(student, by_assignment: dict[str, Submission]) -> Submission:
    """Merge a student's submissions to several assignments, each in a folder of its name."""
    if len(by_assignment) == 1:
        return next(iter(by_assignment.values()))
    whole = Submission(student, ", ".join(one.came_from for one in by_assignment.values()))
    for assignment, one in by_assignment.items():
        whole.files |= {f"{assignment}/{name}": data for name, data in one.files.items()}
        whole.problems += [f"{assignment}: {said}" for said in one.problems]
    return whole


def pile_of(owner) -> Pile:
    """Read all files of one submission."""
    if len(owner.paths) == 1 and is_bare(owner.paths[0]):
        return read_bare(owner.paths[0])
    pile = Pile()
    for path in owner.paths:
        read_path(path, pile)
    return pile


def when(pile) -> float:
    """Return when it was handed in, by nbgrader's timestamp or else by its newest file."""
    for name, data in pile.files.items():
        if name.endswith("timestamp.txt"):
            return seconds_of(data[:100].decode("latin-1"))
    return pile.newest


def newest_of(student, some) -> Submission:
    """Return the newest of a student's submissions, whose problems name the older ones."""
    *older, (_, owner, pile) = sorted(some, key=lambda one: one[0])
    names = [clean_name(path.name) for path in owner.paths]
    said = list(owner.said)
    for time, other, _ in older:
        at = f" of {datetime.fromtimestamp(time):%d %B %Y, %H:%M}" if time else ""
        said.append(f"{clean_name(other.paths[0].name)}{at} is older, and does not count")
    files = {name: data for name, data in pile.files.items() if not name.endswith(".txt")
             or ".mine-" in name}  # fmt: skip
    if not files:
        said.append("there is no notebook and no lab in it")
    return Submission(student, ", ".join(names), files, [*said, *pile.problems])
