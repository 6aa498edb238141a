"""`python -m pedagogy_lib lab`: the course in JupyterLab, on the learner's own copies."""

import os
import sys
from pathlib import Path

from pedagogy_lib.basics.folders import OWN, PUBLISHED

from .copies.working_copies import WORK, learners_folder, renew_copies
from .doctor import examine

FIRST = "00_start_here.ipynb"
SETTINGS = Path(__file__).with_name("lab_settings")  # they wrap lines of code in a small window

EXTENSION = f"{__package__}.lab_extension"


def open_lab(arguments) -> int:
    """Check the machine, renew the copies, and become JupyterLab; return 1 if a check fails.

    arguments  options for JupyterLab, such as "--no-browser"; they come last, so they win
    Raises     LaunchError if there is no folder for the copies
    """
    if examine():
        return 1
    make_copies()
    print(f"Opening {first_notebook()} in JupyterLab; Ctrl-C here ends it.")
    become("jupyterlab", arguments)


def open_hub(arguments) -> int:
    """Renew the copies, and become one user's JupyterHub server, which has to start at once.

    Raises  LaunchError if there is no folder for the copies
    """
    make_copies()
    become("jupyterhub.singleuser", arguments)


def make_copies() -> int:
    """Renew the learner's copies, say where they are, and go to their folder."""
    course = learners_folder(PUBLISHED)
    for sentence in renew_copies(course, PUBLISHED):
        print(sentence)
    where = WORK if course == PUBLISHED else course / WORK
    print(f"Your notebooks are in {where}/.")
    os.chdir(course)
    if course != PUBLISHED:
        os.environ[OWN] = str(course)
    return 0


def become(program, arguments):
    """Replace this process with a module's program."""
    sys.stdout.flush()
    os.environ.update(environment())
    os.execv(sys.executable, [sys.executable, "-m", program, *options(), *arguments])


def first_notebook(course=PUBLISHED) -> str:
    """Return the name of chapter 00's notebook, or of the first part in a handout without it."""
    names = sorted(path.name for path in (course / "notebooks").glob("*.ipynb"))
    return FIRST if FIRST in names or not names else names[0]


def options() -> list[str]:
    """Return the options for JupyterLab.

    Connections are encrypted, because a kernel warns about others. JupyterLab's own warnings are
    hidden: nobody can change their causes, such as notebooks that are opened for the first time.
    """
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        f"--LabApp.default_url=/lab/tree/{WORK}/{first_notebook()}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        "--log-level=ERROR",
        "--KernelManager.transport_encryption=auto",
        "--LabApp.custom_css=True",
        f"--ServerApp.jpserver_extensions={EXTENSION}=True",
        *(["--allow-root"] if as_root else []),
    ]


def environment() -> dict[str, str]:
    """Return variables for JupyterLab and its kernels: PATH begins with this Python's programs.

    One of these programs is torchrun. OpenMP's threads wait for each other in a busy loop, so that
    small products take tens of times as long where other programs use the cores, too. Passive
    threads sleep while they wait.
    """
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    in_front = path if path.split(os.pathsep)[0] == programs else f"{programs}{os.pathsep}{path}"
    return {"PATH": in_front, "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
