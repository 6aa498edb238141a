"""The learner's own copies of the notebooks, so that no file of the course changes unasked.

Where the course is read-only, such as one installation for all on a server, a learner has a
separate folder, with copies of the labs, too, and links to files that are only read.

`notebooks/` stays as it was published, because JupyterLab saves even a notebook that is only looked
at. Learners work in `work/`, which git ignores. `work/.originals/` has each notebook as it was when
its copy was made. A new version of the course therefore replaces a copy without the learner's work,
and is put next to a copy with it.
"""

import os
import shutil
import tempfile
from pathlib import Path

import nbformat

from pedagogy_lib.basics.errors import LaunchError, need_course
from pedagogy_lib.basics.folders import COURSE, OWN

WORK, ORIGINALS = "work", ".originals"
HOME = "~/course"  # of a learner who may not write in the course's folder
READ_ONLY = ("notebooks", "solutions", "assets")  # of the course, linked from such a folder
HANDOUT = "HANDOUT.json"  # in a course that a teacher has handed out: its version and its files


def learners_folder(published: Path) -> Path:
    """Return PEDAGOGY_COURSE's folder, else the course's own or, if that is read-only, ~/course."""
    if OWN in os.environ or not os.access(published, os.W_OK):
        return Path(os.environ.get(OWN) or HOME).expanduser()
    return published


def renew_copies(course: Path = COURSE, published: Path | None = None) -> list[str]:
    """Copy every notebook that is new or has changed; return what the learner should know.

    A deleted copy is made again, which is how a notebook is begun anew.
    published  the course, if the learner's folder is another one: labs are copied as well
    Raises     LaunchError if there is no course, or no folder for the copies
    """
    published = published or course
    need_course(published / "notebooks")
    try:
        told = copy_files(published / "notebooks", "*.ipynb", course / WORK)
        if published != course:
            told += copy_files(published / "labs", "*.py", course / "labs")
            link_the_rest(published, course)
    except OSError as error:
        why = f"{error.strerror}: {error.filename or course}"
        raise LaunchError(f"your copies of the notebooks cannot be written ({why})") from None
    return told


def copy_files(folder: Path, pattern: str, copies: Path) -> list[str]:
    (copies / ORIGINALS).mkdir(parents=True, exist_ok=True)
    told = [try_renew(source, copies) for source in sorted(folder.glob(pattern))]
    return [sentence for sentence in told if sentence]


def link_the_rest(published: Path, course: Path):
    """Link the folders that notebooks and labs read: pictures, solutions, tables."""
    tables = [path.relative_to(published) for path in (published / "labs").iterdir()]
    tables = [path for path in tables if (published / path).is_dir()]
    for name in (*READ_ONLY, *tables):
        target, link = published / name, course / name
        if link.is_symlink() and link.readlink() != target:
            link.unlink()  # of an installation that has moved
        if target.exists() and not link.exists():
            link.symlink_to(target)


def try_renew(source: Path, work: Path) -> str:
    """Bring one copy up to date; describe an obstacle, which must not hinder the others."""
    for path in (work / source.name, work / ORIGINALS / source.name):
        if path.is_dir():
            return f"{path.relative_to(work.parent)} is a folder: move it away to get {source.name}"
    try:
        return renew_copy(source, work)
    except OSError as error:
        return f"{work.name}/{source.name} could not be renewed ({error.strerror or error})"


def renew_copy(source: Path, work: Path) -> str:
    """Bring one copy up to date; return a sentence if the learner has to choose."""
    copy, original = work / source.name, work / ORIGINALS / source.name
    is_known = original.exists() and original.read_bytes() == source.read_bytes()
    if copy.exists() and is_known:
        return ""
    said = ""
    if copy.exists() and has_been_worked_in(copy, original, source):
        copy = free_name(copy)
        said = f"{work.name}/{source.name} stays as you left it; its new version is "
        said += f"{work.name}/{copy.name}"
    put(source, copy)
    put(source, original)
    return said


def has_been_worked_in(copy: Path, *versions: Path) -> bool:
    """Return whether the cells differ from those of each version. Outputs do not count."""
    found = cells_of(copy)
    return not any(version.exists() and cells_of(version) == found for version in versions)


def cells_of(path: Path):
    """Return type, source and attachments of each cell, or the bytes of a malformed notebook."""
    try:
        cells = nbformat.read(path, as_version=4).cells
        return [(cell.cell_type, cell.source, cell.get("attachments")) for cell in cells]
    except OSError:
        raise
    except Exception:  # nbformat may raise anything for a malformed file
        return path.read_bytes()


def free_name(copy: Path) -> Path:
    """Return `02_collectives-new.ipynb` for `02_collectives.ipynb`, or `-new-2` if that exists."""
    number, ending = 1, "-new"
    while (new := copy.with_name(f"{copy.stem}{ending}{copy.suffix}")).exists():
        number += 1
        ending = f"-new-{number}"
    return new


def put(source: Path, target: Path):
    """Copy a file at once, by renaming a temporary copy.

    Neither a full disk nor a second copy at the same time must leave half a notebook.
    """
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as unfinished:
        try:
            unfinished.write(source.read_bytes())
            unfinished.close()
            shutil.copymode(source, unfinished.name)
            os.replace(unfinished.name, target)
        except BaseException:
            os.unlink(unfinished.name)
            raise
