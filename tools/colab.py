"""Get the course into Google Colab. Paste this into the first cell of a notebook, and run it:

    !git clone --depth 1 ADDRESS course
    %run course/tools/colab.py

Colab keeps its own Python, Jupyter and numerical libraries. Those of the course's libraries that it
lacks are installed next to them, and PyTorch only where the course does not support Colab's. The
notebook then runs in the course's folder work/, and the doctor reports what is different here.
Colab deletes files when its machine ends, so download what you have written in work/ and labs/.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("anywidget", "cloudpickle", "ipywidgets", "matplotlib", "nbformat", "numpy", "py-spy",
          "pyroute2", "scikit-learn", "scipy")  # fmt: skip
RESTART = "PyTorch is another one now: choose Runtime, Restart session, and run this cell again."
LOST = "Colab forgets files in the end: download what you have written in work/ and labs/."


def main():
    setup = set_up()
    wanted = [pin_of(name) for name in BESIDE if not is_installed(name)]
    replaces_torch = not has_torch(setup)
    if replaces_torch:
        wanted.append(f"torch=={setup.TORCH}")
    if wanted:
        print(f"Installing {', '.join(wanted)}", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-qq", *wanted], check=True)
    if replaces_torch and "torch" in sys.modules:
        print(RESTART)
        return
    enter_course()
    show_widgets()
    print(LOST)


def set_up():
    """Load tools/setup.py, which knows the versions of PyTorch that the course supports."""
    spec = importlib.util.spec_from_file_location("course_setup", ROOT / "tools" / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_installed(name) -> bool:
    return version_of(name) is not None


def version_of(name) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def pin_of(name) -> str:
    """Return what constraints.txt pins for this Python, without its condition, or just the name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith(f"{name}==")]
    return next(filter(holds_here, found), name).partition(" ;")[0]


def holds_here(line) -> bool:
    from packaging.markers import Marker  # a library that every Jupyter has

    _, _, condition = line.partition(" ; ")
    return not condition or Marker(condition).evaluate()


def has_torch(setup) -> bool:
    found = version_of("torch")
    return found is not None and setup.is_supported_torch(re.match(r"[\d.]+", found)[0])


def enter_course():
    """Make pedagogy_lib importable, also in ranks and under torchrun; enter work/ and examine."""
    sys.path.insert(0, str(ROOT))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from coursekit.copies.working_copies import WORK, renew_copies
    from coursekit.doctor import examine

    for sentence in renew_copies(ROOT):
        print(sentence)
    os.chdir(ROOT / WORK)
    print(f"You are in {ROOT / WORK}.")
    examine()


def show_widgets():
    """Enable the widgets of other libraries, which Colab shows only on request."""
    if importlib.util.find_spec("google") and importlib.util.find_spec("google.colab"):
        from google.colab import output

        output.enable_custom_widget_manager()


if __name__ == "__main__":
    main()
