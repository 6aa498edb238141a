"""Which files make a verdict that is kept an old one."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, environment

from classroom.grading import course

# All that a grading imports, with all checks; tells the course's own files among it.
IMPORTING = """
import sys
from pathlib import Path
import classroom.grading.command, classroom.grading.baseline_credit
import classroom.sandbox.student_sandbox
from classroom.sandbox import open_sandbox
from coursekit.check_runner import exercises_of
for chapter in range(12):
    exercises_of(str(chapter))
with open_sandbox({}, way="trust"):
    pass
files = [Path(one.__file__) for one in list(sys.modules.values()) if getattr(one, "__file__", "")]
print(*sorted(str(one) for one in files if one.is_relative_to(sys.argv[1])), sep="\\n")
"""
NO_CODE = {"classroom/__init__.py"}  # a docstring


def list_hashed_files(root: Path) -> set[Path]:
    return {path for folder, pattern in course.SOURCES for path in (root / folder).glob(pattern)}


@pytest.mark.deep
def test_the_version_knows_all_that_a_grading_imports():
    command = [sys.executable, "-c", IMPORTING, str(ROOT)]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    imported = {Path(line) for line in told.stdout.split()}
    own = {path for path in imported if path.relative_to(ROOT).parts[0] not in (".venv", "tests")}
    assert len(own) > 100
    left_out = {str(path.relative_to(ROOT)) for path in own - list_hashed_files(ROOT)}
    assert left_out == NO_CODE


@pytest.mark.parametrize(
    "name",
    ["pedagogy_lib/schedules/rules.py", "pedagogy_lib/machines/network.py",
     "chapters/ch02_collectives/chapter.toml", "coursekit/check_runner.py",
     "classroom/handout/checks.py",
     "classroom/sandbox/driver.py", "chapters/ch02_collectives/labs/collectives.py",
     "chapters/ch02_collectives/02_collectives.py", "labs/collectives.py",
     "notebooks/02_collectives.ipynb"],
)  # fmt: skip
def test_another_text_is_another_version(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    seen = set()
    for text in ("x = 1\n", "x = 2\n"):
        path.write_text(text)
        course.version.cache_clear()
        seen.add(course.version(tmp_path))
    course.version.cache_clear()
    assert len(seen) == 2
