"""One zip with every student's page, in the layout in which Moodle and Canvas take files back.

Moodle ("Upload multiple feedback files in a zip") finds a student by the name of the folder, as it
was in its own download: `Full Name_ID_assignsubmission_file_`.

Canvas ("Upload submissions") finds a student by the file's name as it was in its own download,
`doejane_123_456_ring.ipynb`, and shows the file to the student as `ring.ipynb`. That is why its
content has to be of that kind: a notebook, a zip, a program, and a page for any other ending.
"""

import io
import re
import zipfile
from pathlib import Path, PurePosixPath

import nbformat
from nbformat.v4 import new_notebook, new_raw_cell

from .one_student import text

MOODLE = re.compile(r"(?P<who>.+_\d+)_assignsubmission_\w+?(_.*)?")
CANVAS = re.compile(r"[^_]+(_LATE)?_\d+_\d+_.+", re.IGNORECASE)
PAGE = "feedback.html"
THEN = (1980, 1, 1, 0, 0, 0)  # the date of every file, so that the same results give the same bytes


def zip_feedback(results: dict, pages: dict[Path, str]) -> bytes:
    """Return the zip; `pages` has each student's page under `students/`."""
    files = {}
    for student in results["students"]:
        page = pages[Path("students", f"{student['file']}.html")].encode()
        name, content = build_feedback_file(student, results, page)
        if name in files:  # handed in under another's name, who alone may get the feedback
            name, content = plain_place(student), page
        files[name] = content
    return zip_files(files)


def build_feedback_file(student, results, page: bytes) -> tuple[str, bytes]:
    """Return the name and the content of a student's file in the zip."""
    for part in re.split(r"[/\\]", encodable(student["from"])):
        if found := MOODLE.fullmatch(part):
            return f"{found['who']}_assignsubmission_file_/{PAGE}", page
        if CANVAS.fullmatch(part):
            return part, format_feedback(PurePosixPath(part).suffix.lower(), student, results, page)
    return plain_place(student), page


def plain_place(student) -> str:
    return f"{student['file']}/{PAGE}"


def encodable(path: str) -> str:
    """Replace the halves of characters that are in a path whose bytes were not UTF-8."""
    return path.encode("utf-8", "replace").decode()


def format_feedback(suffix, student, results, page: bytes) -> bytes:
    """Return a student's feedback as a file of this kind."""
    if suffix == ".ipynb":
        return notebook(text(student, results)).encode()
    if suffix == ".zip":
        return zip_files({PAGE: page})
    if suffix in (".py", ".txt"):
        lines = "\n\n".join(text(student, results)).split("\n")
        return "".join(f"# {line}".rstrip() + "\n" for line in lines).encode()
    return page


def notebook(texts: list[str]) -> str:
    """Return a notebook that shows these texts unchanged: nothing in it runs or is Markdown."""
    cells = [new_raw_cell(one, id=f"text-{number}") for number, one in enumerate(texts)]
    return nbformat.writes(new_notebook(cells=cells))


def zip_files(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, THEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()
