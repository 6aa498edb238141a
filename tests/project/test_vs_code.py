"""The course as VS Code runs it: a kernel alone, without JupyterLab's server and front-end.

VS Code starts ipykernel in the notebook's folder, names the notebook in `__vsc_ipynb_file__`, sends
each cell's own id along, and knows nothing of the variables that `make lab` sets.
"""

import os
import sys

import pytest
from helpers import ROOT, environment
from jupyter_client import KernelManager

WIDGET = "application/vnd.jupyter.widget-view+json"
ADDRESS = "vscode-notebook-cell:/c/my%20course/00_start_here.ipynb#W2sZmlsZQ%3D%3D"


class Kernel:
    """A kernel in a folder of the course; cells in, messages out."""

    def __init__(self, folder, scratch):
        environ = environment(TMPDIR=str(scratch))
        environ.pop("OMP_WAIT_POLICY", None)
        programs = os.path.dirname(sys.executable)
        paths = [path for path in environ["PATH"].split(os.pathsep) if path != programs]
        environ["PATH"] = os.pathsep.join(paths)
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env=environ)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        notebook = folder / "00_start_here.ipynb"
        self.send(f"__vsc_ipynb_file__ = {str(notebook)!r}", silent=True)
        self.run("import os, torch, torch.distributed as dist\nfrom pedagogy_lib import *")

    def send(self, code, silent=False) -> list[dict]:
        """What a cell of VS Code sends back: the contents of its messages."""
        content = {"code": code, "silent": silent, "store_history": not silent,
                   "user_expressions": {}, "allow_stdin": True, "stop_on_error": False}  # fmt: skip
        own = {"cellId": "W2sZmlsZQ%3D%3D", "deletedCells": []}
        message = self.client.session.msg("execute_request", content, metadata=own)
        self.client.shell_channel.send(message)
        found = []
        while True:
            answer = self.client.get_iopub_msg(timeout=60)
            if answer["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                found.append(answer["content"])
                if answer["content"].get("execution_state") == "idle":
                    return found

    def run(self, code) -> str:
        """The text of all that a cell shows."""
        return "".join(map(text_of, self.send(code)))

    def bundle(self, code) -> dict:
        """What the cell's value is in each format."""
        found = [content.get("data", {}) for content in self.send(code)]
        return next(data for data in found if "text/plain" in data)


def text_of(content) -> str:
    if "traceback" in content:
        return "\n".join(content["traceback"])
    return content.get("text", "") or content.get("data", {}).get("text/plain", "")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(ROOT / "notebooks", tmp_path_factory.mktemp("vs-code"))
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=False)


def test_an_error_in_a_rank_names_its_cell(kernel):
    said = kernel.run("def fails():\n    x = torch.ones(3)\n    return x.view(2)\n\nlaunch(fails)")
    assert "all 4 ranks raised RuntimeError: shape '[2]' is invalid" in said.replace("\n    ", " ")
    assert "line 3 of a cell, in fails():  return x.view(2)" in said


def test_a_hang_names_its_cell(kernel):
    said = kernel.run(
        "def hangs():\n    if dist.get_rank():\n        dist.barrier()\n\n"
        "launch(hangs, world_size=2, timeout=1)"
    )
    assert "line 3 of a cell, in hangs():  dist.barrier()" in said
    assert "Rank 0 is already back" in said


def test_a_cell_by_its_address_in_the_editor(kernel):
    """As other tools of VS Code name it."""
    source = "def fails():\n    raise ValueError(7)\n"
    said = kernel.run(
        f"exec(compile({source!r}, {ADDRESS!r}, 'exec'))\nlaunch(fails, world_size=1)"
    )
    assert "raised ValueError: 7" in said
    assert "line 2 of a cell of 00_start_here.ipynb, in fails()" in said


def test_a_check_reads_the_source_of_a_cell(kernel):
    hole = "def global_rank(node, local_rank, per_node):\n    ...  # your code here\n"
    said = kernel.run(f'{hole}\ncheck("0.1", global_rank)')
    assert "not attempted yet; write global_rank in its cell, and run that again" in said
    solved = hole.replace("...  # your code here", "return node * per_node + local_rank")
    assert "✓" in kernel.run(f'{solved}\ncheck("0.1", global_rank)')


def test_widgets_come_with_a_picture_for_who_shows_none(kernel):
    asked = kernel.bundle('guess = predict("MB that each rank sends", unit="MB")')
    shown = kernel.bundle('explore(lab("splitting_diagrams").draw_three_splits, ranks=[4, 2])')
    for data in (asked, shown):
        assert WIDGET in data and data["text/plain"]
    assert "data:image/png;base64," in shown["text/html"]


@pytest.mark.deep
def test_torchrun_is_found_without_its_folder_in_the_path(kernel):
    program = 'run_torchrun("../labs/start_here.py", nnodes=1, nproc_per_node=2)'
    said = kernel.run(f'print("sums:", {program}.output[0].count("SUM"))')
    assert said.endswith("sums: 2\n"), said


def test_labs_are_found_from_every_folder(kernel, tmp_path):
    for folder in (ROOT, ROOT / "notebooks", ROOT / "labs", tmp_path):
        kernel.run(f"os.chdir({str(folder)!r})")
        assert kernel.run('lab("start_here")') == "labs/start_here.py: without exercises"
        assert "Part 00" in kernel.run('progress("00")')
    kernel.run(f"os.chdir({str(ROOT / 'notebooks')!r})")
