"""`pip install .` gives the bench alone: with the data that it needs, and without a course."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import ROOT

INSTALL = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
CODE = {".py", ".pyc"}
PACKAGES = ("pedagogy_lib", "coursekit")  # the latter says what needs the course's folder
PROGRAM = """
import pedagogy_lib, torch, torch.distributed as dist
from pedagogy_lib import launch, measure, plot_timeline

print(pedagogy_lib.__file__)

def step():
    x = torch.ones(1_000_000)
    with measure("sum"):
        dist.all_reduce(x)
    return x[0].item()

run = launch(step, world_size=4, device="cpu")
print(run.values, run["sum"].sent_bytes[0] >= 5_900_000)
print(len(plot_timeline(run).html()) > 10_000)
"""
NO_LABS = (
    "WrongInput there are no labs in {0}: they come with the course, not with pedagogy_lib; set "
    "PEDAGOGY_COURSE to the course's folder, and restart the kernel"
)
WITHOUT_COURSE = """
from pedagogy_lib import LaunchError, check, lab, progress
from pedagogy_lib.__main__ import main

for function, name in ((lab, "zero"), (check, "2.8"), (progress, "00")):
    try:
        function(name)
    except LaunchError as error:
        print(type(error).__name__, error)
for command in ("copies", "build", "report"):
    print(command, main([command]), flush=True)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what the repository has of it: nothing is written there."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (
        "pedagogy_lib",
        "coursekit",
        "labs",
        "tools",
        "tests",
    ):  # as they could get into it
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(target)]
    subprocess.run([*INSTALL, "wheel", *own, str(source)], check=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def install_folder(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    own = ["--no-deps", "--target", str(folder)]
    subprocess.run([*INSTALL, "install", *own, str(wheel)], check=True)
    return folder


def run_outside(install_folder, folder, *words) -> subprocess.CompletedProcess:
    """Run Python with the installed package, in a folder that is not the course's."""
    environ = os.environ | {"PYTHONPATH": str(install_folder), "TMPDIR": str(folder)}
    environ.pop("PEDAGOGY_COURSE", None)
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300
    )


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    own = {name for name in names if name.parts[0] in PACKAGES}
    assert {name.parts[0] for name in names - own} == {wheel_info(wheel)}
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    wanted = {path.relative_to(ROOT) for path in files if path.is_file()}
    assert own == {path for path in wanted if "__pycache__" not in path.parts}
    assert any(path.suffix not in CODE for path in own)


def wheel_info(wheel) -> str:
    name, version, *_ = wheel.stem.split("-")
    return f"{name}-{version}.dist-info"


@pytest.mark.deep
def test_the_installed_bench_launches_measures_and_draws(install_folder, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = run_outside(install_folder, tmp_path, str(program))
    where, *found = ran.stdout.splitlines()
    assert where == str(install_folder / "pedagogy_lib" / "__init__.py"), ran
    assert found == ["[4.0, 4.0, 4.0, 4.0] True", "True"], ran


@pytest.mark.deep
def test_what_needs_a_course_says_so_in_one_sentence(install_folder, tmp_path):
    ran = run_outside(install_folder, tmp_path, "-c", WITHOUT_COURSE)
    no_course = f"there is no course in {install_folder}: pedagogy_lib alone has no {{}}/"
    assert ran.stdout.splitlines() == [
        NO_LABS.format(install_folder),
        f"WrongInput {no_course.format('chapters')}",
        f"WrongInput {no_course.format('notebooks')}",
        "copies 2",
        "build 2",
        "report 2",
    ], ran
    folders = ("notebooks", "chapters", "reports")
    assert ran.stderr.splitlines() == [no_course.format(folder) for folder in folders], ran


@pytest.mark.deep
def test_labs_are_found_where_the_variable_says(install_folder, tmp_path):
    program = "import os; os.environ['PEDAGOGY_COURSE'] = {!r}\nfrom pedagogy_lib import lab\n"
    program = f"{program.format(str(ROOT))}print(lab('start_here'))"
    ran = run_outside(install_folder, tmp_path, "-c", program)
    assert ran.stdout == "labs/start_here.py: without exercises\n", ran
