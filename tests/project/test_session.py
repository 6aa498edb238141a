"""A test session itself: it fails if one of its tests leaves something behind."""

import subprocess
import sys

import pytest
from helpers import ROOT, environment

CONFTEST = (ROOT / "tests" / "conftest.py").read_text()
TEST = """
import tempfile
from pedagogy_lib import launch

def test_one():
    assert launch(int, world_size=1, device="cpu").values == [0]
    tempfile.mkdtemp()
"""


@pytest.mark.parametrize(
    "workers",
    [pytest.param([], id="alone"), pytest.param(["-n", "1"], id="workers", marks=pytest.mark.deep)],
)
@pytest.mark.deep
def test_a_session_fails_if_a_folder_stays(workers, tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_one.py").write_text(TEST)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folders = f"{ROOT / 'tests' / 'support'}:{environment()['PYTHONPATH']}"
    environ = environment(TMPDIR=str(scratch), PYTHONPATH=folders)
    environ.pop("PYTEST_DEBUG_TEMPROOT", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, tmp_path]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "1 passed" in done.stdout
    assert "made by test_one.py::test_one" in done.stdout
    assert not list(scratch.glob("course-tests-*"))
