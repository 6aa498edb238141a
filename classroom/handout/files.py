"""All files of a handout, as bytes."""

import hashlib
import json
import re

from coursekit.building.build import ROOT
from coursekit.copies.working_copies import HANDOUT
from coursekit.definitions import digests_of
from coursekit.kit.packed_checks import pack_check

from .checks import build_check_files
from .contents import Contents, contents_of
from .handout_labs import lab_text
from .notebooks import notebook_of
from .readme import readme_of

AS_THEY_ARE = ("AGENTS.md", "LICENSE", "constraints.txt", "environment.yml", "reports/machine.py",
               "tools/setup.py", "assets/first_look.png", "assets/step_check.png",
               "assets/step_compare.png", "assets/step_hang.png",
               "assets/step_predict.png")  # fmt: skip
OF_A_CHECK = re.compile(r"chapters/.*\.py$")
NOT_CODE = ("__pycache__",)
DATA_OF_LABS = ("labs/published", "labs/clusters")
COVERS = "assets/covers"
PROJECT = re.compile(r'^version = "(.+)"', re.MULTILINE)
NAME = "distributed-training"
IGNORED = """.venv/
__pycache__/
*.egg-info/
.ipynb_checkpoints/
reports/*.html
work/
kept-*/
hand-in-*.zip
.predictions.json*
.progress.json*
.scores-*.json*
"""
MAKEFILE = """\
# `make` alone lists what there is to make. Everything runs in .venv, made at the first call.

# Makes .venv. Where this Python has PyTorch already, that one is used; later calls need not name
# it again.
PYTHON ?= python3
SETUP := $(PYTHON) tools/setup.py $(if $(filter file,$(origin PYTHON)),,--named)

# Added to the command that they name, for example: make lab LAB_ARGS="--no-browser --port 8890"
LAB_ARGS ?=
REPORT_ARGS ?=
NAME ?=

# Passive threads sleep while they wait for each other: with several processes that is faster.
RUN := env -u PYTHONDONTWRITEBYTECODE PATH="$(CURDIR)/.venv/bin:$$PATH" OMP_WAIT_POLICY=PASSIVE \\
	.venv/bin/python

.PHONY: help setup lab report doctor hand-in clean

help:
	@echo "make lab      open the course in JupyterLab"
	@echo "make doctor   say what works on this machine, and how to mend what does not"
	@echo "make report   measure this machine and write it as one HTML page"
	@echo "make hand-in  pack what you have written: make hand-in NAME='your name'"
	@echo "make clean    remove .venv and caches"

setup:
	@$(SETUP)

lab: setup
	@$(RUN) -m pedagogy_lib lab $(LAB_ARGS)

report: setup
	@$(RUN) -m pedagogy_lib report $(REPORT_ARGS)

doctor: setup
	@$(RUN) -m pedagogy_lib doctor

# By the environment: a name may have any characters.
hand-in: export HAND_IN_NAME := $(value NAME)
hand-in: setup
	@$(RUN) -m pedagogy_lib hand-in --name "$$HAND_IN_NAME"

clean:
	@if [ ! -e .venv ] || [ -e .venv/chosen-python ]; then rm -rf .venv/* .venv; \\
	else echo ".venv was not made by this set-up, so it stays"; fi
	rm -rf *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
"""


def handout_files(names=()) -> dict[str, bytes]:
    """Return {path: contents} for these chapters and parts; HANDOUT.json describes the handout."""
    contents = contents_of(names)
    files = bench_files() | pack_check_files(contents) | lab_files(contents)
    files |= {name: (ROOT / name).read_bytes() for name in AS_THEY_ARE}
    files |= {f"{COVERS}/{part}.png": path.read_bytes() for part in contents.parts
              if (path := ROOT / COVERS / f"{part}.png").exists()}  # fmt: skip
    texts = {
        "Makefile": MAKEFILE,
        ".gitignore": IGNORED,
        "pyproject.toml": project_with_tables(),
        "README.md": readme_of(contents, list(contents.exercises)),
    }
    files |= {name: text.encode() for name, text in texts.items()}
    paths = {*files, *(f"notebooks/{part}.ipynb" for part in contents.parts)}
    files |= {f"notebooks/{part}.ipynb": notebook_of(part, paths) for part in contents.parts}
    return add_version_file(files, contents)


def add_version_file(files, contents: Contents) -> dict[str, bytes]:
    """Add HANDOUT.json, whose version is made of the project's and of a digest of all files."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    of_all = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
    project = PROJECT.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
    functions = {name: digests_of(data.decode()) for name, data in sorted(files.items())
                 if name.startswith("labs/") and name.endswith(".py")}  # fmt: skip
    name = NAME if contents.is_whole else "-".join([NAME, *contents.names])
    about = {"name": name, "version": f"{project}-{of_all[:8]}", "chapters": contents.names,
             "exercises": list(contents.exercises),
             "asks": sorted({*contents.own, *contents.first}),
             "files": digests, "functions": functions}  # fmt: skip
    return dict(sorted((files | {HANDOUT: (json.dumps(about, indent=1) + "\n").encode()}).items()))


def bench_files() -> dict[str, bytes]:
    """Return `pedagogy_lib`, `coursekit`, and the files that number the exercises."""
    paths = [*(ROOT / "pedagogy_lib").rglob("*"), *(ROOT / "coursekit").rglob("*")]
    paths += (ROOT / "chapters").glob("ch*/chapter.toml")
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in paths
        if path.is_file() and not set(path.parts) & set(NOT_CODE)
    }


def pack_check_files(contents: Contents) -> dict[str, bytes]:
    """Return the checks; code is packed in each file, because some of it says what is right."""
    return {
        name: pack_check(data.decode()).encode() if OF_A_CHECK.search(name) else data
        for name, data in build_check_files(contents.exercises).items()
    }


def lab_files(contents: Contents) -> dict[str, bytes]:
    files = {f"labs/{name}.py": lab_text(name).encode() for name in contents.labs}
    text = b"\n".join(files.values()).decode()
    for folder in DATA_OF_LABS:
        is_used = contents.is_whole or folder.split("/")[1] in text
        for path in sorted((ROOT / folder).iterdir()) if is_used else ():
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return files


def project_with_tables() -> str:
    """Return pyproject.toml, changed so that tables are installed with the package."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    begin = "[tool.setuptools]\n"
    return text.replace(begin, f'{begin}package-data."*" = ["*.json"]\n')
