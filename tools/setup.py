"""Make .venv with everything that the course needs. `make` runs this; once done, it does nothing.

python3 tools/setup.py            the course
python3 tools/setup.py bench      and the libraries that `make bench` compares with
python3 tools/setup.py browser    and the library that drives a browser in the tests
python3 tools/setup.py classroom  and a sandbox for students' code where bubblewrap is missing
python3 tools/setup.py deepspeed  and DeepSpeed, which chapter 06h races if it is installed
python3 tools/setup.py torchft    and torchft, which chapter 04e tries if it is installed
python3 tools/setup.py transformers  and the library with whose Llama tests compare chapter 07's
python3 tools/setup.py nbgrader   and nbgrader, for which chapters become assignments
python3 tools/setup.py clusters   and a library that knows the schemas of Kubernetes
python3 tools/setup.py workflows  and the tools that check the workflows in .github/
python3 tools/setup.py book       and Sphinx, which makes a website of the notebooks

.venv keeps the Python that it was made for, whichever Python runs this, because its PyTorch may be
in use. With `--named` in front, as in `make PYTHON=…`, .venv is made for the Python that runs this.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = (ROOT / ".venv").resolve()  # on clusters often a link to a larger disk
PYTHON = VENV / "bin" / "python"
CHOSEN = VENV / "chosen-python"  # holds the path of the Python that .venv was made for
VERSION = sys.version.split()[0]
BORROWED = "borrowed_torch.pth"
OPTIONS = ("--named", "--again")
CPU_INDEX = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
TORCH = re.search(r'^torch = "(.+?)"', PROJECT, re.MULTILINE).group(1)
OPTIONAL = PROJECT.split("[project.optional-dependencies]")[1].split("\n[")[0]
ALWAYS = ("course", "test")  # their packages are in constraints.txt
EXTRAS = [name for name in re.findall(r"^(\w+) = ", OPTIONAL, re.MULTILINE) if name not in ALWAYS]
OLDEST, NEWEST = re.search(r'"torch>=(.+?),<(.+?)"', PROJECT).groups()

IMPOSSIBLE = [
    (os.name == "nt", "On Windows, run the course inside WSL 2: `wsl --install`, then `make lab`."),
    (
        sys.version_info < (3, 10),
        f"The course needs Python 3.10 or newer, and {sys.executable} is {VERSION}: "
        "name another one, for example `make lab PYTHON=python3.12`.",
    ),
    (
        find_spec("venv") is None or find_spec("ensurepip") is None,
        "Python's venv module is missing: on Debian and Ubuntu, `sudo apt install python3-venv`.",
    ),
]


def main(*words):
    named = words[:1] == ("--named",)
    if not named and words[:1] != ("--again",):
        hand_over_to_the_chosen(words)
    for wrong, what_to_do in IMPOSSIBLE:
        if wrong:
            sys.exit(what_to_do)
    extras = [word for word in words if word not in OPTIONS]
    for unknown in [word for word in extras if word not in EXTRAS]:
        sys.exit(f"tools/setup.py installs {', '.join(EXTRAS)} beside the course, not {unknown!r}.")
    with be_the_only_one():
        need_own_venv()
        once("ready", named, install_course, named)
        for extra in extras:
            once("ready-" + extra, named, install_extra, extra)


def hand_over_to_the_chosen(words):
    """Let the Python that .venv was made for do the rest, if it still exists."""
    chosen = CHOSEN.read_text() if CHOSEN.exists() else ""
    if os.access(chosen, os.X_OK):
        os.execv(chosen, [chosen, __file__, "--again", *words])


def be_the_only_one():
    """Wait until no other set-up uses .venv; return a lock that others wait for until closed."""
    import fcntl  # imported here, because Windows has none

    lock = open(__file__)  # noqa: SIM115  this file, as .venv may not be there
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Another make is at work on .venv: waiting for its end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        pass  # a file system without locks
    return lock


def need_own_venv():
    """Stop if .venv holds what this set-up has not made, which it never empties or changes."""
    is_folder = VENV.is_dir()
    if CHOSEN.exists() or not VENV.exists() or (is_folder and not any(VENV.iterdir())):
        return
    sys.exit(
        ".venv was not made by this set-up, so it stays as it is. Either rename it (`mv .venv "
        "my-venv`) and run make again, or keep it and install the course into it yourself "
        "(`uv pip install -e '.[course,test]'`, or the same with pip), then start with `python -m "
        "pedagogy_lib lab`."
    )


def once(name, named, install, *arguments):
    """Call `install`, unless it has finished here with the same files and the same Python."""
    stamp = VENV / name
    if not stamp.exists() or stamp.read_text() != fingerprint(named):
        install(*arguments)
        stamp.write_text(fingerprint(named))


def fingerprint(named):
    """Return a text that changes with everything that .venv depends on."""
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt", Path(__file__)]
    place = [ROOT, sys.version, sys.base_prefix, torch_to_borrow(named)]
    state = b"".join(file.read_bytes() for file in files) + repr(place).encode()
    return hashlib.sha256(state).hexdigest()


def install_course(named):
    """Fill .venv: exactly the packages of constraints.txt, then the course itself, then torch."""
    make_venv(named)
    print("Installing JupyterLab and the other packages of the course (a minute)", flush=True)
    pip("--no-deps", "-r", "constraints.txt")
    pip("--no-deps", "--no-build-isolation", "-e", ".")
    silence_jupyter_news()
    get_torch(named)


def install_extra(extra):
    print(f"Installing the optional libraries for: {extra}", flush=True)
    pip("--no-build-isolation", "-c", "constraints.txt", "-e", f".[{extra}]")


def make_venv(named):
    """Create .venv if there is none to continue with, and remove what was left unfinished."""
    in_the_way = has_own_torch() and torch_to_borrow(named)  # it would be found first
    if in_the_way or not usable_venv():
        print(f"Creating .venv with Python {VERSION}", flush=True)
        empty_venv()
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    if Path(sys.prefix).resolve() != VENV:
        CHOSEN.write_text(sys.executable)
    for outdated in [*VENV.glob("ready*"), *packages().glob(BORROWED)]:
        outdated.unlink()
    for info in packages().glob("*.dist-info"):
        if not (info / "RECORD").exists():  # the last file that pip writes
            shutil.rmtree(info)


def empty_venv():
    """Make .venv a folder that holds only CHOSEN, which says at every moment whose it is."""
    VENV.mkdir(parents=True, exist_ok=True)
    CHOSEN.touch()
    for old in VENV.iterdir():
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        elif old != CHOSEN:
            old.unlink()


def usable_venv():
    """Return whether .venv is complete and made at this place by a Python of this minor version."""
    config, pip_script = VENV / "pyvenv.cfg", VENV / "bin" / "pip"
    if not (PYTHON.exists() and config.exists() and pip_script.exists()):
        return False
    minor = "version = {}.{}.".format(*sys.version_info)
    is_ours = minor in config.read_text() and str(VENV) in pip_script.read_text()
    return is_ours and not any_package_twice()


def any_package_twice():
    """Return whether two set-ups at once have left a package twice, which pip cannot repair."""
    names = [record.parent.name.split("-")[0] for record in packages().glob("*.dist-info/RECORD")]
    return len(names) != len(set(names))


def packages():
    return next(VENV.glob("lib/python*/site-packages"))


def get_torch(named):
    """Use the torch that exists; else install the CPU build on Linux without a GPU, or PyPI's."""
    outside = torch_to_borrow(named)
    if outside:
        borrow_torch(outside)
    if outside or has_own_torch():
        return
    if sys.platform == "linux" and not has_nvidia_gpu():
        print(f"Installing PyTorch {TORCH} for the CPU (200 MB)", flush=True)
        if pip("--no-deps", f"torch=={TORCH}+cpu", *CPU_INDEX, "--retries=1", required=False):
            return
        print(f"{CPU_INDEX[1]} has no PyTorch for this machine, or cannot be reached.")
    print(f"Installing PyTorch {TORCH} from PyPI (3 GB on Linux)", flush=True)
    pip("-c", "constraints.txt", f"torch=={TORCH}")


def has_nvidia_gpu():
    return Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi") is not None


def has_own_torch():
    """Return whether a supported torch is installed in .venv itself."""
    installed = VENV.glob("lib/python*/site-packages/torch-*.dist-info")
    return any(is_supported_torch(info.name) for info in installed)


def torch_to_borrow(named):
    """Return the folder of an outside torch to use: a named Python's comes before .venv's own."""
    return find_outside_torch() if named or not has_own_torch() else None


def find_outside_torch():
    """Return the folder of the torch that this Python has outside .venv, or None."""
    from importlib.metadata import distributions  # here: Python 3.6 has to reach IMPOSSIBLE

    for torch in distributions(name="torch"):
        folder = Path(torch.locate_file("")).resolve()
        if VENV not in folder.parents and is_supported_torch(torch.version):
            return str(folder)
    return None


def borrow_torch(folder):
    """Let .venv see `folder`, after its own packages, and give it the torchrun command."""
    print(f"Using the PyTorch of {folder}", flush=True)
    (packages() / BORROWED).write_text(folder + "\n")
    torchrun = PYTHON.with_name("torchrun")
    torchrun.write_text('#!/bin/sh\nexec "${0%/*}/python" -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)


def is_supported_torch(version):
    """Return whether pyproject.toml admits this version of torch, or this name-version."""
    oldest, this, newest = (
        [int(number) for number in re.findall(r"\d+", text)[:2]]
        for text in (OLDEST, version, NEWEST)
    )
    return oldest <= this < newest


def pip(*arguments, required=True):
    """Install into .venv and return whether it worked; stop if it failed and was required."""
    command = [PYTHON, "-m", "pip", "install", *arguments]
    failed = run_telling(command, stderr=None if required else subprocess.DEVNULL)
    if required and failed:
        sys.exit(
            "pip could not install this; its reason is above. If it is the network, run make "
            "again; otherwise try another Python, for example `make lab PYTHON=python3.12`."
        )
    return not failed


def run_telling(command, stderr):
    """Run pip and return its exit status; on a terminal, a line shows its progress and the time."""
    if not sys.stdout.isatty():
        return subprocess.run([*command, "-qq"], cwd=ROOT, stderr=stderr).returncode
    began, said = time.monotonic(), [""]
    pipe = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
    with subprocess.Popen([*command, "--progress-bar=off"], cwd=ROOT, **pipe) as process:
        threading.Thread(target=remember, args=(process.stdout, said), daemon=True).start()
        while process.poll() is None:
            line = f"  {time.monotonic() - began:.0f} s  {said[-1]}"
            print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
            time.sleep(0.3)
    print("\r\033[K", end="", flush=True)
    return process.returncode


def remember(lines, said):
    for line in lines:
        said.append(line.strip())


def silence_jupyter_news():
    """Turn off JupyterLab's question about news, which would cover the first notebook."""
    settings = VENV / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    news = {"fetchNews": "false", "checkForUpdates": False}
    settings.write_text(json.dumps({"@jupyterlab/apputils-extension:notification": news}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("Stopped. The next make goes on from here.")
