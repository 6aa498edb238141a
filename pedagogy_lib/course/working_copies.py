"""The learner's own copies of the notebooks, so that no file of the course changes unasked.

`notebooks/` stays as it was published: JupyterLab saves a notebook that is only looked at, too.
Learners work in `work/`, of which git knows nothing. `work/.originals/` has each notebook as it was
when its copy was made. So a new version of the course takes the place of a copy in which nobody has
written, and stands beside one in which somebody has.
"""

import shutil
from pathlib import Path

import nbformat

from ..basics.errors import LaunchError
from ..basics.places import COURSE

WORK, ORIGINALS = "work", ".originals"


def renew_copies(course: Path = COURSE) -> list[str]:
    """Copy every notebook that is new or has changed; returns what the learner should know.

    A copy that has been deleted is made again: that is how one begins a notebook anew.
    Raises  LaunchError if the files cannot be read or written
    """
    work = course / WORK
    try:
        (work / ORIGINALS).mkdir(parents=True, exist_ok=True)
        told = [renew(source, work) for source in sorted((course / "notebooks").glob("*.ipynb"))]
    except OSError as error:
        why = f"{error.strerror}: {error.filename or work}"
        raise LaunchError(f"your copies of the notebooks cannot be written ({why})") from None
    return [sentence for sentence in told if sentence]


def renew(source: Path, work: Path) -> str:
    """Bring one copy up to date; a sentence if the learner has to choose."""
    copy, original = work / source.name, work / ORIGINALS / source.name
    is_known = original.exists() and original.read_bytes() == source.read_bytes()
    if copy.exists() and is_known:
        return ""
    said = ""
    if copy.exists() and has_been_worked_in(copy, original):
        copy = free_name(copy)
        said = f"{WORK}/{source.name} stays as you left it; its new version is {WORK}/{copy.name}"
    put(source, copy)
    put(source, original)
    return said


def has_been_worked_in(copy: Path, original: Path) -> bool:
    """Whether the cells are other ones than those of the original. Outputs do not count."""
    return not original.exists() or cells_of(copy) != cells_of(original)


def cells_of(path: Path):
    """The sources of all cells; of a file that is no notebook (any more), its bytes."""
    try:
        return [(c.cell_type, c.source) for c in nbformat.read(path, as_version=4).cells]
    except (ValueError, AttributeError, nbformat.ValidationError):
        return path.read_bytes()


def free_name(copy: Path) -> Path:
    """`02_collectives.ipynb` to `02_collectives-new.ipynb`, or `-new-2` if there is one."""
    number, ending = 1, "-new"
    while (new := copy.with_name(f"{copy.stem}{ending}{copy.suffix}")).exists():
        number += 1
        ending = f"-new-{number}"
    return new


def put(source: Path, target: Path):
    """Copy at once: a full disk must not leave half a notebook."""
    unfinished = target.with_suffix(".part")
    shutil.copyfile(source, unfinished)
    unfinished.replace(target)
