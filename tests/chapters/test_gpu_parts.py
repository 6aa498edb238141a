"""The cells of chapters 00–03 and 05–08 in order, without Jupyter: on GPUs where there are some.

python tests/chapters/test_gpu_parts.py 02c            tries parts by hand, also without a GPU
python tests/chapters/test_gpu_parts.py --shared 02c   launches that name no device share the GPUs
"""

import ast
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = sorted([*ROOT.glob("chapters/ch0[0-3]*/0*.py"), *ROOT.glob("chapters/ch0[5-8]*/0*.py")])
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
SECONDS = 300


@pytest.mark.gpu
@pytest.mark.deep
@pytest.mark.parametrize("device", ["auto", "shared"])
@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.stem)
def test_no_cell_raises(part, device):
    options = ["--shared"] if device == "shared" else []
    done = subprocess.run(
        [sys.executable, __file__, *options, part.stem],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def run_part(part, space):
    """Run the cells of a solved part, as a notebook in solutions/ does, and show their values."""
    _, *parts = CELL.split(part.read_text())
    for number, (head, text) in enumerate(zip(parts[::2], parts[1::2])):
        if "[markdown]" not in head:
            run_cell(text, f"{part.stem}, cell {number}", space)


def run_cell(text, name, space):
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    *body, last = ast.parse(text).body
    is_value = isinstance(last, ast.Expr)
    if not is_value:
        body.append(last)
    exec(compile(ast.Module(body, []), name, "exec"), space)
    if is_value:
        show(eval(compile(ast.Expression(last.value), name, "eval"), space))


def show(*values):
    """What `display` does in a notebook, as text."""
    for value in values:
        if value is not None:
            print(repr(value))


def share_gpus():
    from pedagogy_lib.ranks import launcher

    choose = launcher.choose_device
    launcher.choose_device = lambda device, n: choose("cuda" if device == "auto" else device, n)


def main(names):
    os.chdir(ROOT / "solutions")
    sys.path.insert(0, str(ROOT))
    if "--shared" in names:
        share_gpus()
    for name in names:
        for part in PARTS:
            if name in (part.stem, part.stem.split("_")[0]):
                print(f"---- {part.stem}", flush=True)
                space = sys.modules["__main__"].__dict__ | {"display": show}
                run_part(part, space)


if __name__ == "__main__":
    main(sys.argv[1:])
