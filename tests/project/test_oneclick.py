"""Dockerfile, dev container, Binder and Colab: they agree with the course, and with each other."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
import yaml
from helpers import ROOT

from coursekit import doctor
from pedagogy_lib.machines import container

DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETUP = (ROOT / "tools" / "setup.py").read_text()
NOT_GIVEN = {".git", ".venv", "work", "*.egg-info"}


def load(name):
    spec = importlib.util.spec_from_file_location(f"course_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


# ---- Images ---------------------------------------------------------------------------------


def test_the_image_copies_files_that_are_there_and_runs_targets_that_are_there():
    copied = re.findall(r"^COPY --chown=learner:learner (.+) \S+$", DOCKERFILE, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert "." in names and all((ROOT / name).exists() for name in names)
    used = set(re.findall(r'(?:^RUN make |^CMD \["make", ")([a-z]+)', DOCKERFILE, re.MULTILINE))
    assert used == {"setup", "lab"} <= make_targets()


def test_the_image_does_not_run_as_root():
    users = re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)
    assert users == ["learner"]
    assert DOCKERFILE.index("USER learner") < DOCKERFILE.index("RUN make setup")


def test_what_the_set_up_reads_is_in_the_image_before_it_runs():
    before = DOCKERFILE[: DOCKERFILE.index("RUN make setup")]
    read = set(re.findall(r'ROOT / "([a-z.]+)"', SETUP)) - {".venv"}
    assert read == {"pyproject.toml", "constraints.txt"}
    assert not [name for name in read if name not in before]


def test_the_image_gets_nothing_that_was_made_here():
    ignored = set((ROOT / ".dockerignore").read_text().splitlines())
    assert ignored >= NOT_GIVEN
    git = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    missing = [name for name in git if not {name, f"**/{name}"} & ignored]
    assert missing == []


def test_the_dev_container_calls_commands_that_are_there():
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    found = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert found["updateContentCommand"] == "make setup"
    commands = [found["postCreateCommand"], found["postAttachCommand"]]
    for command in commands:
        program, *words = command.split()
        assert (program, words[:2]) == (".venv/bin/python", ["-m", "pedagogy_lib"])
        listed = subprocess.run(
            [sys.executable, "-m", "pedagogy_lib", words[2], "--help"],
            cwd=ROOT,
            capture_output=True,
        )
        assert listed.returncode == 0, words
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert found["containerEnv"] == conda["variables"]


def test_binder_installs_the_torch_that_the_tests_ran_with():
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    tested = load("setup").TORCH
    assert f"torch=={tested}+cpu" in lines
    assert "-r ../constraints.txt" in lines
    for script in ("postBuild", "start"):
        path = ROOT / "binder" / script
        assert os.access(path, os.X_OK)
        assert subprocess.run(["bash", "-n", path]).returncode == 0
    assert "OMP_WAIT_POLICY=PASSIVE" in (ROOT / "binder" / "start").read_text()


def test_binders_start_hands_over_to_jupyter():
    command = [ROOT / "binder" / "start", "sh", "-c", "echo $OMP_WAIT_POLICY $0", "jupyter"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert said == "PASSIVE jupyter\n"


# ---- Colab ----------------------------------------------------------------------------------


@pytest.fixture
def colab(monkeypatch, tmp_path):
    """tools/colab.py on a machine with some libraries; what it does is noted, not done."""
    colab, done = load("colab"), []
    installed = dict.fromkeys(colab.BESIDE, "1.0") | {"torch": "2.13.0+cu126"}
    monkeypatch.setattr(colab, "version_of", installed.get)
    monkeypatch.setattr(
        colab.subprocess, "run", lambda command, check: done.append(command[-1:] and command[5:])
    )
    monkeypatch.setattr(colab, "enter_course", lambda: done.append("entered"))
    monkeypatch.setattr(colab, "show_widgets", lambda: done.append("shown"))
    return SimpleNamespace(main=colab.main, installed=installed, done=done, module=colab)


def test_where_nothing_is_missing_nothing_is_installed(colab, capsys):
    colab.main()
    assert colab.done == ["entered", "shown"]
    assert capsys.readouterr().out == f"{colab.module.LOST}\n"


def test_what_is_missing_is_installed_as_the_course_pins_it(colab):
    del colab.installed["anywidget"], colab.installed["numpy"]
    colab.main()
    pins = doctor_pins("anywidget", "numpy")
    assert colab.done == [pins, "entered", "shown"]


def doctor_pins(*names):
    """What the tests run with is what is pinned: test_environment.py says so."""
    return [f"{name}=={importlib.metadata.version(name)}" for name in names]


@pytest.mark.parametrize("version", ["2.10.1+cu126", "2.9.0", None])
def test_an_old_torch_is_replaced_and_the_session_started_again(colab, version, capsys):
    if version:
        colab.installed["torch"] = version
    else:
        del colab.installed["torch"]
    colab.main()
    assert colab.done == [[f"torch=={colab.module.set_up().TORCH}"]]  # torch is imported here
    assert colab.module.RESTART in capsys.readouterr().out


def test_colab_is_told_to_show_widgets(monkeypatch):
    told, colab = [], ModuleType("google.colab")
    colab.__spec__ = importlib.util.spec_from_loader("google.colab", None)
    colab.output = SimpleNamespace(enable_custom_widget_manager=lambda: told.append(True))
    google = ModuleType("google")
    google.__spec__, google.__path__ = importlib.util.spec_from_loader("google", None), []
    google.colab = colab
    monkeypatch.setitem(sys.modules, "google", google)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    load("colab").show_widgets()
    assert told == [True]


# ---- What a container leaves ----------------------------------------------------------------


@pytest.fixture
def group(tmp_path, monkeypatch):
    """The files of a control group."""
    monkeypatch.setattr(container, "GROUP", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10**7}.get)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")

    return write


NEW = {"memory_DOT_max": 2_000_000_000, "cpu_DOT_max": "150000 100000"}
OLD = {
    "memory__memory_DOT_limit_in_bytes": 2_000_000_000,
    "cpu__cpu_DOT_cfs_quota_us": 150_000,
    "cpu__cpu_DOT_cfs_period_us": 100_000,
}
WITHOUT = {"memory_DOT_max": "max", "cpu_DOT_max": "max 100000", "cpu__cpu_DOT_cfs_quota_us": -1}


@pytest.mark.parametrize("files", [NEW, OLD])
def test_the_doctor_tells_what_a_container_leaves(group, files):
    group(**files)
    assert doctor.memory() == (
        doctor.NOTE,
        "2.0 GB of memory, as much as this container may take of 41.0 GB: shut down the kernels of "
        "notebooks that you have left",
    )
    assert doctor.cores() == (
        doctor.OK,
        "2 cores of this computer's 8: up to 2 busy ranks can run side by side",
    )


@pytest.mark.parametrize("files", [{}, WITHOUT])
def test_without_limits_the_whole_computer_counts(group, files):
    group(**files)
    assert doctor.memory() == (doctor.OK, "41.0 GB of memory")
    assert doctor.cores()[1].startswith("8 cores: up to 8")


@pytest.mark.parametrize(
    ("gpus", "size", "verdict", "says"),
    [
        (0, 64_000_000, doctor.OK, "ranks on the CPU need none"),
        (2, 64_000_000, doctor.NOTE, "64 MB of shared memory, which is little"),
        (2, 1_000_000_000, doctor.OK, "enough for ranks on several GPUs"),
        (2, None, doctor.OK, "enough for ranks on several GPUs"),
    ],
)
def test_little_shared_memory_is_told_where_nccl_needs_it(monkeypatch, gpus, size, verdict, says):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(container, "read_shm_bytes", lambda: size)
    found, text = doctor.shared_memory()
    assert found == verdict and says in text
