"""pyproject.toml, constraints.txt, environment.yml and what runs here name the same versions."""

import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
HERE = "{}.{}".format(*sys.version_info)


def read_project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read_constraints():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def read_conda():
    """What environment.yml asks of conda and of pip, in pip's spelling."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    from_pip = next(item["pip"] for item in listed if isinstance(item, dict))
    from_conda = [item.replace("=", "==") for item in listed if isinstance(item, str)]
    names = [line.replace("pytorch", "torch") for line in from_conda if line != "pip"]
    return names + [line for line in from_pip if not line.startswith("-")]


def pins(lines, python=HERE):
    """{package: version specifier} of the lines that hold for this version of Python."""
    marks = {"python_version": python, "python_full_version": f"{python}.9"}
    found = [Requirement(line) for line in lines]
    return {
        canonicalize_name(one.name): str(one.specifier)
        for one in found
        if one.marker is None or one.marker.evaluate(marks)
    }


def list_requirements():
    """Return what `make setup` installs: what the bench, the course and the tests need."""
    project = read_project()["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["course"], *extras["test"]]


def pins_of_project(python=HERE):
    """Return the course's own pins; torch, which is a range, with its tested version."""
    return pins(list_requirements(), python) | {
        "torch": f"=={read_project()['tool']['course']['torch']}"
    }


def test_everything_but_torch_is_pinned():
    unpinned = {
        name for name, wanted in pins(list_requirements()).items() if not wanted.startswith("==")
    }
    assert unpinned == {"torch"}


def test_conda_gets_the_same_versions():
    conda = pins(read_conda())
    python = conda.pop("python").removeprefix("==")
    assert conda == pins_of_project(python)


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_repeat_every_pin(python):
    own = pins_of_project(python).items() - {("torch", pins_of_project(python)["torch"])}
    assert own <= pins(read_constraints(), python).items()


def test_constraints_are_complete():
    """Whatever a package of constraints.txt needs on this machine is in constraints.txt too."""
    listed = pins(read_constraints())
    for package in listed:
        needed = pins(line for line in requires(package) or [] if "extra ==" not in line)
        assert needed.keys() <= listed.keys(), package


def test_these_versions_run_here():
    wanted = pins_of_project()
    del wanted["torch"]
    assert {name: f"=={version(name)}" for name in wanted} == wanted


def test_torch_runs_in_its_range():
    range_of_torch = Requirement(list_requirements()[0]).specifier
    assert range_of_torch.contains(version("torch"), prereleases=True)


def test_conda_sets_the_variables_that_make_sets():
    """Some are read when a program starts, so nothing in the course can set them later."""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["variables"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = next(line for line in makefile.splitlines() if line.startswith("RUN :="))
    assert conda and all(f" {name}={value} " in run for name, value in conda.items())
