"""The files of a class: all its pages, and the zip to give back."""

from pathlib import Path

from . import feedback, one_class, one_student, side_by_side
from .escaping import file_names


def write(results: dict, out: Path, course: str = "") -> list[Path]:
    """Write the pages of a class, and return their paths. The same results give the same bytes.

    course  where students find the notebooks, so that their pages link to what to read again:
            an address that ends before `02c_the_ring.ipynb`
    """
    results = add_file_names(results)
    pages = {
        Path("index.html"): one_class.page(results),
        Path("similar.html"): side_by_side.page(results),
    }
    for student in results["students"]:
        pages[Path("students", f"{student['file']}.html")] = one_student.page(
            student, results, course
        )
    paths = [write_file(out / path, text.encode()) for path, text in pages.items()]
    given_back = feedback.zip_feedback(results, pages)
    return [*paths, write_file(out / "feedback.zip", given_back)]


def add_file_names(results) -> dict:
    """Return the results, in which each student has a file name that no other student has."""
    students = results["students"]
    files = file_names([one["student"] for one in students])
    return {**results, "students": [{**one, "file": file} for one, file in zip(students, files)]}


def write_file(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
