"""Gradescope's autograder: a zip of two programs, the course, and what is asked.

The zip holds the solutions. In Gradescope's container only root can read them.
"""

import io
import json
import zipfile
from pathlib import Path

from classroom.grading import course
from classroom.grading.command import parse_given_numbers
from classroom.handout.archive import entry
from classroom.pages.rendering import topic
from coursekit.building.build import ROOT
from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import format_count

HERE = Path(__file__).parent
PROGRAMS = {"setup.sh": "gradescope_setup.sh", "run_autograder": "gradescope_run.sh"}
COURSE = ("classroom/**/*", "coursekit/**/*", "labs/**/*", "notebooks/*.ipynb", "pedagogy_lib/**/*",
          "chapters/**/*", "solutions/labs/*.py", "tools/setup.py", "pyproject.toml",
          "constraints.txt", "LICENSE")  # fmt: skip
NOT_CODE = {"__pycache__", ".ipynb_checkpoints"}
ASKED = "asked.json"
LEAST_MINUTES = 5  # with less, even one slow exercise cannot be judged


def write_autograder(chapters, exercises, folder: Path, given="", minutes=10.0):
    """Write the zip; yield what was done.

    given    numbers of exercises or chapters whose solutions replace missing answers
    minutes  the time that Gradescope gives to a submission
    """
    need(chapters or exercises, 'say what to grade: --chapters "02", or --exercises "2.8 2.9"')
    need(
        minutes >= LEAST_MINUTES,
        f"{minutes:g} minutes are too few to judge in: --minutes 40, and the same in Gradescope",
    )
    parse_given_numbers(given)  # a wrong one is reported to the teacher now, not to students
    asked = course.list_exercises(chapters, exercises)
    files = {f"course/{name}": data for name, data in course_files().items()}
    files |= {name: (HERE / source).read_bytes() for name, source in PROGRAMS.items()}
    files[ASKED] = serialise_exercises(asked, given, minutes)
    path = folder / f"autograder-{'-'.join([*chapters, *exercises, *list_name_parts(given)])}.zip"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zip_autograder(files))
    yield f"{format_count(len(asked), 'exercise')}, {path.stat().st_size / 1e6:.1f} MB: {path}"
    yield "it holds the solutions: give it to Gradescope, and to no student"


def list_name_parts(given) -> list[str]:
    """Return what `given` adds to a zip's name: `02-given-03` is a separate zip."""
    return ["given", *given.split()] if given.split() else []


def serialise_exercises(asked, given, minutes) -> bytes:
    told = [{"number": one.number, "title": topic(one.dump_fields()), "points": one.points}
            for one in asked]  # fmt: skip
    return json.dumps({"exercises": told, "given": given, "minutes": minutes}, indent=1).encode()


def course_files() -> dict[str, bytes]:
    """Return the files that judging needs, by path."""
    paths = {path for pattern in COURSE for path in ROOT.glob(pattern)}
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sorted(paths)
            if path.is_file() and not NOT_CODE & set(path.parts)}  # fmt: skip


def zip_autograder(files) -> bytes:
    """Return a zip, the same bytes every time, with Gradescope's two programs at the top."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(entry(name, 0o755 if name in PROGRAMS else 0o644), data)
    return buffer.getvalue()
