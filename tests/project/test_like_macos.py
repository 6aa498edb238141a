"""The course where nothing of Linux is to be had: imitated here, as nobody has a Mac for it.

`like_macos` takes away what Linux alone has, and an empty folder lies on /proc. What is left to
believe is what macOS does in its kernel: see its docstring.
"""

import os
import shutil
import signal
import subprocess
import sys

import needs
import pytest
from helpers import ROOT, alive, family, my_rank, scratch_left, wait_until

from pedagogy_lib import launch
from pedagogy_lib.ranks import fork_server_client

HEAD = """
import os, signal, sys, torch, torch.distributed as dist
from pedagogy_lib import Disk, LaunchError, Machines, check, launch, measure

def told(function, *args, **settings):
    try:
        print(function(*args, **settings))
    except LaunchError as error:
        print(type(error).__name__, error)
"""
# A network whose loopback is called as on macOS, and an empty /proc; then a command.
ENTER = """
import fcntl, os, socket, struct, subprocess, sys
rename, set_flags, is_up = 0x8923, 0x8914, 1
any_socket = socket.socket()
fcntl.ioctl(any_socket, rename, struct.pack("16s16s", b"lo", b"lo0"))
fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo0", is_up))
subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
os.execvp(sys.argv[1], sys.argv[1:])
"""
THERE = ["unshare", "-Urmn", sys.executable, "-S", "-c", ENTER]
CAN_IMITATE = (
    shutil.which("unshare") is not None
    and subprocess.run([*THERE, "true"], capture_output=True).returncode == 0
)


@pytest.fixture
def start_there(start, tmp_path):
    """Start a Python program as it would be on macOS."""
    if not CAN_IMITATE:
        needs.skip("machines", "no namespaces, to hide /proc in")
    shutil.copy(ROOT / "tests" / "support" / "like_macos.py", tmp_path / "sitecustomize.py")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])

    def start_one(body):
        program = tmp_path / "program.py"
        program.write_text(HEAD + body)
        command = [*THERE, sys.executable, str(program)]
        return start(command, tmp_path, PYTHONPATH=paths)

    return start_one


@pytest.fixture
def run_there(start_there, tmp_path):
    """Run one to its end; returns the lines that it has printed. Nothing is left of it."""

    def run_one(body) -> list[str]:
        said, _ = start_there(body).communicate(timeout=240)
        assert wait_until(lambda: not scratch_left(tmp_path))
        return [line for line in said.splitlines() if "cpuinfo" not in line]

    return run_one


def test_launch_measure_check_and_what_is_refused(run_there):
    """Ranks of fresh interpreters: their bytes are counted, as no kernel tells them."""
    said = run_there("""
from coursekit import doctor
from pedagogy_lib.ranks.fork_server_client import START_METHOD

def step():
    x = torch.ones(1_000_000)
    with measure("sum"):
        dist.all_reduce(x)
    return x[0].item(), os.path.exists("/proc/self"), hasattr(os, "unshare")

run = launch(step, world_size=2)
print(START_METHOD, set(run.values), run["sum"].wire, run["sum"].sent_bytes)
print(run["sum"].peak_bytes[0]["total"])
told(launch, step, world_size=2, machines=Machines(2))
told(lambda: Disk(megabytes=4).__enter__())
for examined in (doctor.start_method, doctor.machines, doctor.neighbours):
    print(*examined(), sep="|")
""")
    refused = "machines need Linux: elsewhere a process cannot have a network of its own"
    assert said == [
        f"spawn {{(2.0, False, False)}} counted {[4_000_000] * 2}",
        "4000000",
        f"LaunchError {refused}",
        "WrongInput a disk of one's own needs Linux",
        "note|start method: every rank is a fresh interpreter, so a launch takes seconds",
        f"note|no machines of their own for ranks: {refused}. Links are throttled instead",
        "ok  |other people: not looked for, as this is not Linux",
    ]


@pytest.mark.deep
def test_checks_hangs_and_killed_ranks(run_there):
    said = run_there("""
def one_stays_away():
    if dist.get_rank() != 1:
        dist.all_reduce(torch.ones(1))

def one_is_killed():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()

def endless():
    sum(range(10**13))

def mean_over_ranks(number):
    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return (x / dist.get_world_size()).item()

print(check("0.2", mean_over_ranks).passed, check("0.2", lambda number: number).passed)
told(launch, one_stays_away, world_size=2, timeout=1)
told(launch, one_is_killed, world_size=2)
told(launch, endless, world_size=1, timeout=1)
print(launch(dist.get_rank, world_size=2).values)
""")
    checked, hang, where, call, other, advice, killed, *more, alone, at, work, values = said
    assert checked == "True False"
    assert hang == "HangError after 1 s, 1 of 2 ranks had returned. Where each rank was:"
    assert where.endswith("in one_stays_away():  dist.all_reduce(torch.ones(1))")
    assert call == "      inside all_reduce(float32[1], op=SUM)"
    assert (other, advice[:27]) == ("  rank 1: has returned", "Rank 1 is already back, so ")
    assert killed.startswith("RankError rank 1 was killed by SIGKILL")
    assert any("in one_is_killed():  dist.barrier()" in line for line in more)
    assert alone == "HangError after 1 s, 0 of 1 ranks had returned. Where each rank was:"
    assert at.endswith("in endless():  sum(range(10**13))")
    assert work.startswith("Rank 0 is still at work, in no call of torch.distributed.")
    assert values == "[0, 1]"


@pytest.mark.deep
def test_a_notebook_that_is_killed_leaves_no_rank(start_there, tmp_path):
    """The kernel does not end ranks with their parent there: they have to hear of its end."""
    program = start_there("""
def wait():
    open(f"begun-{dist.get_rank()}", "w").close()
    sum(range(10**13))

launch(wait, world_size=2)
""")
    assert wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, 100)
    everybody = [program.pid, *family(program.pid)]
    assert len(everybody) >= 4
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    assert wait_until(lambda: not alive(everybody), 10)
    assert wait_until(lambda: not scratch_left(tmp_path))


@pytest.mark.deep
def test_a_notebook_runs_there(start_there, tmp_path):
    """Every cell of the first part as a learner gets it; what it needs of others, it says."""
    program = start_there(f"""
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read({str(ROOT / "solutions" / "00_start_here.ipynb")!r}, as_version=4)
work = os.path.join({str(ROOT)!r}, "solutions")
client = NotebookClient(notebook, timeout=120, resources={{"metadata": {{"path": work}}}})
client.execute()
print("executed", sum(cell.cell_type == "code" for cell in notebook.cells))
""")
    said, _ = program.communicate(timeout=400)
    assert "executed " in said, said


def test_files_under_way_to_a_rank_stay_open_until_it_has_them(monkeypatch):
    monkeypatch.setattr(fork_server_client, "KEEPS_COPIES", True)
    kept, fork = [], fork_server_client.Server.fork

    def note(server, *sent):
        number = fork(server, *sent)
        kept.extend(map(os.fstat, server.under_way[number]))  # raises for one that is closed
        return number

    monkeypatch.setattr(fork_server_client.Server, "fork", note)
    assert launch(my_rank, world_size=3).values == [0, 1, 2]
    assert len(kept) == 2 * 3
    assert fork_server_client.ensure_server().under_way == {}
