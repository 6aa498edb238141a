"""The doctor tells what works, and fails when something that the course needs does not."""

import importlib.metadata
import os
import pwd
import sys
from types import SimpleNamespace

import pytest
import torch
from machines_here import needs_machines

from coursekit import doctor
from pedagogy_lib.__main__ import main
from pedagogy_lib.basics.text_wrap import COLUMNS
from pedagogy_lib.machines import network, other_users


def test_this_machine_can_run_the_course(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    reports = [line for line in lines if line[:4] in (doctor.OK, doctor.NOTE, doctor.BAD)]
    assert len(reports) == len(doctor.CHECKS)
    assert not [line for line in lines if not len(line) <= COLUMNS]
    noted = any(line.startswith(doctor.NOTE) for line in reports)
    well = "Everything works; a note above may matter to you." if noted else "All is well."
    assert lines[-1] == well
    assert any("four Gloo ranks on loopback" in line for line in lines)


def test_a_missing_package_is_named_with_what_to_do(monkeypatch, capsys):
    def raise_missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", raise_missing)
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


@pytest.mark.parametrize(
    ("driver", "cuda", "verdict", "says"),
    [
        (False, None, doctor.OK, "no GPU: ranks run on the CPU, over Gloo"),
        (True, None, doctor.NOTE, "`make lab PYTHON=/path/to/python`"),
        (True, "13.0", doctor.NOTE, "see what `nvidia-smi` says"),
    ],
)
def test_gpus_that_torch_cannot_use_are_told(monkeypatch, driver, cuda, verdict, says):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(doctor, "has_nvidia_driver", lambda: driver)
    found, text = doctor.gpus()
    assert found == verdict
    assert says in text


def test_nvidia_smi_tells_that_there_is_a_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor.Path, "exists", lambda path: False)
    assert not doctor.has_nvidia_driver()
    (tmp_path / "nvidia-smi").touch(mode=0o755)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.has_nvidia_driver()


@pytest.mark.parametrize(
    ("people", "verdict", "says"),
    [
        (set(), doctor.OK, "nobody else has an account here"),
        ({1001}, doctor.NOTE, "1 other person has an account here. If you trust"),
        ({1001, 1002}, doctor.NOTE, "2 other people have accounts here. If you trust"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for people on Linux only")
def test_people_on_a_shared_server_are_told(monkeypatch, people, verdict, says):
    monkeypatch.setattr(doctor, "other_people", lambda: people)
    monkeypatch.setattr(doctor, "has_own_network", lambda: False)
    found, text = doctor.neighbours()
    assert found == verdict
    assert text.startswith(says)


@needs_machines
def test_ranks_in_a_network_of_their_own_need_no_warning(monkeypatch):
    monkeypatch.setattr(doctor, "other_people", lambda: {1001})
    monkeypatch.setenv(other_users.SWITCH, "1")
    found, text = doctor.neighbours()
    assert found == doctor.OK and text.endswith("ranks on the CPU meet in a network of their own")
    monkeypatch.setenv(other_users.SWITCH, "0")
    assert doctor.neighbours()[0] == doctor.NOTE


def test_where_there_are_no_machines_it_is_told_with_what_opens_them(monkeypatch):
    monkeypatch.setattr(network, "try_machines", lambda: "`sudo sysctl x=1` opens it")
    found, text = doctor.machines()
    assert found == doctor.NOTE and "`sudo sysctl x=1` opens it. Links are throttled" in text
    monkeypatch.setattr(network, "try_machines", lambda: "")
    assert doctor.machines()[0] == doctor.OK


@pytest.mark.parametrize(
    ("uid", "shell", "counts"),
    [
        (54321, "/bin/bash", True),
        (54321, "/usr/sbin/nologin", False),
        (33, "/bin/sh", False),
        (65534, "/bin/sh", False),
    ],
)
def test_accounts_of_people_and_of_services(monkeypatch, uid, shell, counts):
    account = SimpleNamespace(pw_uid=uid, pw_shell=shell)
    monkeypatch.setattr(pwd, "getpwall", lambda: [account])
    monkeypatch.setattr(other_users, "owners_of_processes", set)
    assert other_users.other_people() == ({uid} if counts else set())


def test_own_processes_are_seen():
    assert os.getuid() in other_users.owners_of_processes() or sys.platform != "linux"
