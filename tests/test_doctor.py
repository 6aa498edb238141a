"""The doctor tells what works, and fails when something that the course needs does not."""

import importlib.metadata

import pytest

from pedagogy_lib import doctor
from pedagogy_lib.__main__ import main


def test_this_machine_can_run_the_course(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.CHECKS) + 1
    assert lines[-1] == "All is well."
    assert any("four Gloo ranks on loopback" in line for line in lines)


def test_a_missing_package_is_named_with_what_to_do(monkeypatch, capsys):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", missing)
    assert doctor.jupyter() == (
        doctor.BAD,
        "missing jupyterlab, ipykernel, ipywidgets, matplotlib: run `make lab`, or pip install "
        "them",
    )


@pytest.mark.parametrize("problem", [RuntimeError("no loopback"), OSError("too many files")])
def test_a_check_that_breaks_is_reported_and_the_others_go_on(monkeypatch, capsys, problem):
    def four_ranks():
        raise problem

    monkeypatch.setattr(doctor, "CHECKS", (four_ranks, doctor.python_version))
    assert doctor.examine() == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == f"FAIL  four ranks: {problem}"
    assert second.startswith("ok")
    assert "attention" in last


def test_an_old_python_is_told(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9, 0))
    verdict, text = doctor.python_version()
    assert verdict == doctor.BAD
    assert "install 3.10 or newer" in text
