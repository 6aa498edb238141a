"""What the tests of handouts share: a handout in a folder, and answers that are tried there."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from answer_files import Answer, imports_of

from classroom.handout.archive import write_files
from classroom.handout.files import handout_files
from coursekit.building import build

TRIES = Path(__file__).with_name("handout_answers.py")
# What differs from run to run, and when a file was saved.
VARIES = re.compile(r"after [\d.]+ s\b|[\d.]+ m?s\b|0x[0-9a-f]+|/\S*/labs/")
STANDS = re.compile(r"(it still runs.*\n)(?: {6}.*\n)+")  # where the clock found it


@cache
def files_of(*chapters) -> dict[str, bytes]:
    return handout_files(chapters)


def handout_in(folder: Path, *chapters, solved=True) -> Path:
    """A handout; with `solved` labs, as a student has them in the end."""
    write_files(files_of(*chapters), folder)
    for path in (folder / "labs").glob("*.py") if solved else ():
        source = build.source_of(path.stem)
        path.write_text(build.keep_answers(build.text_of(source)))
    return folder


def copy_with_original_checks(handout: Path, folder: Path) -> Path:
    """Copy a handout, with the chapters' own checks in place of those that have tables."""
    ignored = shutil.ignore_patterns("__pycache__", "answers.py")
    shutil.copytree(handout, folder, ignore=ignored)
    for exercises in (build.ROOT / "chapters").glob("ch*/exercises"):
        place = folder / exercises.relative_to(build.ROOT)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(exercises, place, ignore=ignored)
    return folder


def run_in_course(folder: Path, *command, given="", **environment):
    """Run a program in a course's folder, with the course's own `pedagogy_lib`."""
    around = {**os.environ, "PYTHONPATH": str(folder), **environment}
    return subprocess.run([sys.executable, *map(str, command)], cwd=folder, env=around, input=given,
                          capture_output=True, text=True, check=False)  # fmt: skip


def run_checks(folder: Path, answers: list[Answer]) -> list[str]:
    """What the checks of a course tell of these answers."""
    asked = [{"number": a.exercise.number, "name": a.exercise.name, "lab": a.exercise.lab,
              "imports": "" if a.exercise.lab else imports_of(a.exercise),
              "text": a.given + a.program} for a in answers]  # fmt: skip
    # An answer that walks through a set of names does so in the same order in each course.
    done = run_in_course(folder, TRIES, given=json.dumps(asked), PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return [STANDS.sub(r"\1", VARIES.sub("…", text)) for text in found]
