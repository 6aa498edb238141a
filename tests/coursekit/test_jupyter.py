"""A real Jupyter kernel: what a learner sees who runs, breaks, interrupts and restarts cells."""

import time

import psutil
import pytest
from helpers import alive, environment, family, scratch_left, wait_until
from jupyter_client import KernelManager

# ipykernel 7.3 now and then loses a request that arrives within milliseconds of an error, of any
# cell (`1/0` will do); 20 ms later it lost none of 300.
AFTER_AN_ERROR = 0.1
SET_UP = """
import time, torch, torch.distributed as dist
from pedagogy_lib import launch
"""
HANG = """
def wait_for_ever():
    print("begun")
    if dist.get_rank():
        dist.all_reduce(torch.ones(3))
    sum(range(10**13))

launch(wait_for_ever, world_size=2)
"""


class Kernel:
    """A kernel and its client; cells in, text out."""

    def __init__(self, folder):
        self.folder = folder
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env=environment(TMPDIR=str(folder)))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.pid = self.manager.provisioner.pid
        self.run(SET_UP)

    def run(self, code) -> str:
        """Everything that a cell shows: prints, errors, and the value of its last line."""
        shown = []
        time.sleep(AFTER_AN_ERROR)
        self.client.execute_interactive(code.strip(), timeout=60, output_hook=shown.append)
        return "".join(map(text_of, shown))

    def start(self, code, until):
        """Start a cell; returns once it has printed `until`."""
        time.sleep(AFTER_AN_ERROR)
        self.client.execute(code.strip())
        while until not in text_of(self.client.get_iopub_msg(timeout=60)):
            pass

    def rest(self) -> str:
        """What a started cell shows until it ends."""
        shown = ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["content"].get("execution_state") == "idle":
                return shown
            shown += text_of(message)

    def shut_down(self, now):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=now)


def text_of(message) -> str:
    content = message["content"]
    if message["msg_type"] == "error":
        return "\n".join(content["traceback"])
    return content.get("text", "") or content.get("data", {}).get("text/plain", "")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    yield kernel
    processes = family(kernel.pid)
    kernel.shut_down(now=False)
    assert wait_until(lambda: not alive(processes))
    assert not scratch_left(kernel.folder)


def test_cell_function_and_class(kernel):
    shown = kernel.run("""
class Pair(tuple):
    pass

def step(offset):
    return Pair([offset, dist.get_rank()])

run = launch(step, 5, world_size=2)
[type(value) is Pair for value in run.values], run.values
""")
    assert shown.endswith("([True, True], [(5, 0), (5, 1)])")


def test_run_is_shown_as_a_table(kernel):
    assert "2 ranks · Gloo on the CPU" in kernel.run("launch(dist.get_rank, world_size=2)")


def test_error_names_cell_and_line(kernel):
    shown = kernel.run("""
def fail():
    x = torch.ones(2)
    return x[dist.get_rank() + 1]

launch(fail, world_size=2)
""")
    assert "RankError: rank 1 raised IndexError" in shown
    assert "at line 3 of a cell, in fail():  return x[dist.get_rank() + 1]" in shown
    assert "launcher.py" not in shown


def test_error_in_a_redefined_function_shows_the_new_line(kernel):
    for word in "first", "second":
        shown = kernel.run(f"def fail():\n    raise ValueError('{word}')\nlaunch(fail)")
        assert f"line 2 of a cell, in fail():  raise ValueError('{word}')" in shown


def test_hang_names_cell_and_line(kernel):
    shown = kernel.run("""
def hang():
    if dist.get_rank():
        dist.barrier()

launch(hang, world_size=2, timeout=2)
""")
    assert "HangError: after 2 s, 1 of 2 ranks had returned" in shown
    assert "rank 1: line 3 of a cell, in hang():  dist.barrier()" in shown


def test_interrupt_during_a_hang(kernel):
    kernel.start(HANG, until="begun")
    time.sleep(0.5)  # the other rank begins as well
    kernel.manager.interrupt_kernel()
    shown = kernel.rest()
    assert "Stopped: where each rank was:" in shown
    assert "dist.all_reduce(torch.ones(3))" in shown
    assert "sum(range(10**13))" in shown
    assert "launcher.py" not in shown  # no frames of the library
    assert kernel.run("launch(dist.get_rank, world_size=2).values").endswith("[0, 1]")


def test_killed_kernel_leaves_nothing(tmp_path):
    kernel = Kernel(tmp_path)
    kernel.start(HANG, until="begun")
    processes = family(kernel.pid)
    names = [psutil.Process(pid).name() for pid in processes]
    assert len(processes) == 3, names  # the fork server and two ranks
    kernel.shut_down(now=True)
    assert wait_until(lambda: not alive(processes))
    assert wait_until(lambda: not scratch_left(tmp_path))
