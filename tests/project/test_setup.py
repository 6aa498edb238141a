"""The set-up keeps to the Python and the PyTorch that were chosen. Nothing is installed here."""

import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import needs
import pytest
from helpers import ROOT
from jupyter_client import KernelManager
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from traitlets.config.loader import KVArgParseConfigLoader

from coursekit.jupyter_lab import options

REAL_RUN = subprocess.run
needs_make = needs.mark("make")
SITE_PACKAGES = "lib/python{}.{}/site-packages".format(*sys.version_info)


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """tools/setup.py for a .venv in `tmp_path`, where pip installs a torch by its name alone."""
    spec = importlib.util.spec_from_file_location("course_setup", ROOT / "tools" / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    # A file of its own to lock: another make may be at work here.
    monkeypatch.setattr(setup, "__file__", shutil.copy(setup.__file__, tmp_path))
    venv = tmp_path / ".venv"
    monkeypatch.setattr(setup, "VENV", venv)
    monkeypatch.setattr(setup, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(setup, "CHOSEN", venv / setup.CHOSEN.name)
    monkeypatch.setattr(setup, "pip", lambda *wanted, **_: pretend_to_install(venv, wanted))
    monkeypatch.setattr(setup, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(setup, "hand_over_to_the_chosen", lambda words: None)
    monkeypatch.setattr(setup.subprocess, "run", lambda command, **_: make_venv(command[-1]))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "-packages" not in entry])
    return setup


def make_venv(folder):
    for name in ("bin", SITE_PACKAGES):
        (folder / name).mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / "bin" / "pip").write_text(f"#!{folder}/bin/python")
    (folder / "pyvenv.cfg").write_text("version = {}.{}.{}".format(*sys.version_info))


def pretend_to_install(venv, wanted):
    for version in (word.removeprefix("torch==") for word in wanted if word.startswith("torch==")):
        add_torch(venv / SITE_PACKAGES, version)
    return True


def add_torch(folder, version):
    info = folder / f"torch-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").touch()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


@pytest.fixture
def torch_elsewhere(tmp_path, monkeypatch):
    """Let the Python that runs the set-up have a torch, or not."""
    folder = tmp_path / "elsewhere"
    add_torch(folder, "2.13.0+cu130")

    def there_is(one):
        others = [entry for entry in sys.path if entry != str(folder)]
        monkeypatch.setattr(sys, "path", [str(folder)] * one + others)

    return there_is


def torches(setup):
    """What .venv holds: names of its own torches, and folders of borrowed ones."""
    own = [info.name for info in setup.packages().glob("torch-*.dist-info")]
    borrowed = [file.read_text().strip() for file in setup.packages().glob(setup.BORROWED)]
    return own + [Path(folder).name for folder in borrowed]


CPU_BUILD = "torch-{}+cpu.dist-info"


def test_the_torch_of_this_python_is_used_at_first(setup, torch_elsewhere):
    torch_elsewhere(True)
    setup.main()
    assert torches(setup) == ["elsewhere"]


def test_without_one_the_cpu_build_is_installed_and_kept(setup, torch_elsewhere, capsys):
    setup.main()
    assert torches(setup) == [CPU_BUILD.format(setup.TORCH)]
    capsys.readouterr()
    torch_elsewhere(True)
    setup.main()
    assert torches(setup) == [CPU_BUILD.format(setup.TORCH)]
    assert capsys.readouterr().out == ""


def test_the_torch_of_a_named_python_takes_the_place_of_ours(setup, torch_elsewhere, capsys):
    setup.main()
    torch_elsewhere(True)
    setup.main("--named")
    assert torches(setup) == ["elsewhere"]
    assert f"Using the PyTorch of {sys.path[0]}" in capsys.readouterr().out


def test_what_was_named_stays_at_the_next_plain_call(setup, torch_elsewhere, capsys):
    torch_elsewhere(True)
    setup.main("--named")
    capsys.readouterr()
    setup.main()
    assert torches(setup) == ["elsewhere"]
    assert capsys.readouterr().out == ""


def test_a_named_python_without_torch_gets_one(setup, torch_elsewhere):
    torch_elsewhere(True)
    setup.main("--named")
    torch_elsewhere(False)
    setup.main("--named")
    assert torches(setup) == [CPU_BUILD.format(setup.TORCH)]


def test_extras_follow_the_course(setup, capsys):
    setup.main("--again", "browser")
    assert capsys.readouterr().out.endswith("optional libraries for: browser\n")


@pytest.mark.parametrize("word", ["nonsense", "--nonsense", ""])
def test_extras_that_there_are_not_are_refused(setup, word):
    with pytest.raises(SystemExit) as told:
        setup.main(word)
    assert str(told.value) == (
        "tools/setup.py installs bench, deepspeed, torchft, transformers, classroom, nbgrader, "
        f"browser, book, workflows, clusters beside the course, not {word!r}."
    )
    assert not setup.VENV.exists()


def test_a_second_one_waits_for_the_first(setup, capsys):
    first = setup.be_the_only_one()
    second = threading.Thread(target=setup.main)
    second.start()
    try:
        second.join(0.5)
        assert second.is_alive()
        assert not setup.VENV.exists()
        assert capsys.readouterr().out == "Another make is at work on .venv: waiting for its end\n"
    finally:
        first.close()
        second.join(60)
    assert (setup.VENV / "ready").exists()


def test_a_venv_that_has_a_package_twice_is_made_anew(setup, capsys):
    setup.main()
    (setup.VENV / "ready").unlink()
    for version in ("2.13.0", "2.12.0"):
        add_torch(setup.packages(), version)
    setup.main()
    assert "Creating .venv" in capsys.readouterr().out
    assert torches(setup) == [CPU_BUILD.format(setup.TORCH)]


@pytest.mark.parametrize("made_by", ["uv", "the user", "nobody"])
def test_a_venv_of_the_users_own_is_left_alone(setup, made_by):
    """uv's has no pip; another has packages of its own; or it is no environment at all."""
    setup.VENV.mkdir()
    if made_by != "nobody":
        make_venv(setup.VENV)
    if made_by == "uv":
        (setup.VENV / "bin" / "pip").unlink()
    (setup.VENV / "mine.txt").write_text("mine")
    before = sorted(setup.VENV.rglob("*"))
    with pytest.raises(SystemExit) as told:
        setup.main("--named")
    assert str(told.value).startswith(".venv was not made by this set-up, so it stays as it is.")
    assert sorted(setup.VENV.rglob("*")) == before


@pytest.mark.parametrize("exists", [True, False])
def test_a_venv_may_be_a_link_to_a_folder_elsewhere(setup, tmp_path, monkeypatch, exists):
    elsewhere = tmp_path / "large disk" / "environment"
    if exists:
        elsewhere.mkdir(parents=True)
    setup.VENV.symlink_to(elsewhere)
    monkeypatch.setattr(setup, "VENV", setup.VENV.resolve())
    setup.main()
    assert (tmp_path / ".venv" / "ready").exists()
    assert (tmp_path / ".venv").readlink() == elsewhere


def test_a_set_up_that_was_interrupted_goes_on(setup, monkeypatch):
    def raise_interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(setup.subprocess, "run", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            setup.main()
    setup.main()
    assert (setup.VENV / "ready").exists()


def test_the_python_of_the_last_call_is_remembered(setup):
    setup.main()
    assert setup.CHOSEN.read_text() == sys.executable


def run_setup(folder, *words):
    """What a copy of tools/setup.py in `folder` prints."""
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.py", folder / "tools")
    shutil.copy(ROOT / "pyproject.toml", folder)
    command = [sys.executable, "-I", folder / "tools" / "setup.py", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def test_a_plain_call_goes_on_with_the_chosen_python(tmp_path):
    chosen = tmp_path / "chosen"
    chosen.write_text("#!/bin/sh\necho chosen $2 $3\n")
    chosen.chmod(0o755)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "chosen-python").write_text(str(chosen))
    assert run_setup(tmp_path, "browser") == "chosen --again browser\n"


def what_make_would_run(monkeypatch, *words):
    for name in ("PYTHON", "MAKEFLAGS", "MAKEOVERRIDES"):
        monkeypatch.delenv(name, raising=False)
    asked = ["make", "--no-print-directory", "-n", *words]
    return subprocess.check_output(asked, cwd=ROOT, text=True).splitlines()


@needs_make
@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([], "python3 tools/setup.py"),
        (["PYTHON=python3"], "python3 tools/setup.py --named"),
        (["PYTHON=/opt/bin/python"], "/opt/bin/python tools/setup.py --named"),
    ],
)
def test_make_tells_whether_the_python_was_named(words, command, monkeypatch):
    commands = what_make_would_run(monkeypatch, "setup", *words)
    assert [line.strip() for line in commands] == [command]


@needs_make
def test_make_lab_hands_its_arguments_on(monkeypatch):
    command = shlex.split(what_make_would_run(monkeypatch, "lab", "LAB_ARGS=--port 8890")[-1])
    assert command[-5:] == ["-m", "pedagogy_lib", "lab", "--port", "8890"]


def test_kernels_have_nothing_to_warn_of():
    """A kernel warns of a connection that is not encrypted; JupyterLab asks for that."""
    about_kernels = [option for option in options() if option.startswith("--KernelManager.")]
    config = KVArgParseConfigLoader(about_kernels, classes=[KernelManager]).load_config()
    assert ServerKernelManager(config=config).transport_encryption == "auto"


@pytest.fixture
def real_pip(setup):
    """The set-up's own way to run a program, here a Python that stands for pip."""

    def run(program, **settings):
        return setup.run_telling([sys.executable, "-c", program], **{"stderr": None, **settings})

    setup.subprocess.run = REAL_RUN
    return run


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_pip_does_is_told_on_a_terminal(real_pip, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    program = "import time; print('Collecting torch', flush=True); time.sleep(1)"
    assert real_pip(program) == 0
    assert re.search(r"\d s  Collecting torch", screen.getvalue())
    assert screen.getvalue().endswith("\r\033[K")  # the line has gone


def test_elsewhere_pip_says_nothing_and_its_failure_counts(real_pip, capfd):
    assert real_pip("import sys; sys.exit(sys.argv[1] == '-qq')") == 1
    assert capfd.readouterr().out == ""
