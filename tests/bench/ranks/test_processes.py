"""Who starts processes and who ends them, when launches are interrupted and when parents die."""

import os
import re
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from helpers import alive, failure, family, my_rank, scratch_left, wait_until
from selection import parametrize
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import launch
from pedagogy_lib.ranks import fork_server_client, processes
from pedagogy_lib.ranks.rank_handle import RankHandle

HEADER = """
import os, subprocess, time
from pathlib import Path
import torch, torch.distributed as dist
from pedagogy_lib import launch

def begin():
    subprocess.Popen(["sleep", "100"], start_new_session=True)
    dist.barrier()
    Path(f"begun-{dist.get_rank()}").touch()

def my_rank():
    return dist.get_rank()

def wait_in_a_collective():
    begin()
    if dist.get_rank():
        dist.all_reduce(torch.ones(3))
    time.sleep(1000)

def compute_in_c():
    begin()
    sum(range(10**13))
"""


def begun(folder):
    return len(list(folder.glob("begun-*")))


@pytest.fixture
def start_python(start, tmp_path):
    """Start a Python program: the header above, and what the test adds to it."""

    def start_one(body, **environ):
        (tmp_path / "program.py").write_text(HEADER + body)
        return start([sys.executable, "program.py"], tmp_path, **environ)

    return start_one


@pytest.fixture
def start_launch(start_python, tmp_path):
    """Start a Python program, and return in the middle of its launch of two ranks."""

    def start_one(body):
        program = start_python(body)
        assert wait_until(lambda: begun(tmp_path) == 2 or program.poll() is not None, 60)
        assert program.poll() is None, program.communicate()
        return program

    return start_one


@pytest.mark.deep
def test_spawned_interpreters(start_python, tmp_path):
    """What macOS does: each rank is an interpreter of its own."""
    body = """
print(launch(lambda text: text * dist.get_rank(), "ab", world_size=2).values)
"""
    program = start_python(body, PEDAGOGY_START_METHOD="spawn")
    said, _ = program.communicate(timeout=60)
    assert said == "['', 'ab']\n"
    assert wait_until(lambda: not scratch_left(tmp_path))


@pytest.mark.deep
def test_more_time_for_what_computes(start_python):
    """As notebooks get it that are tested side by side."""
    body = """
def compute(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
print(launch(compute, 1.5, world_size=1, timeout=1.0).values)
"""
    said, _ = start_python(body, PEDAGOGY_PATIENCE="4").communicate(timeout=60)
    assert said == "[None]\n"


@pytest.mark.deep
def test_scratch_folders_of_any_name(start_python, tmp_path):
    folder = tmp_path / "ours #1? 100%"
    folder.mkdir()
    body = """
def total(x):
    dist.all_reduce(x)
    return x.item()
for _ in range(2):
    print(launch(total, torch.tensor(2), world_size=2, timeout=5).values)
"""
    program = start_python(body, TMPDIR=str(folder))
    assert program.communicate(timeout=60)[0] == "[4, 4]\n" * 2
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "program.py"}
    assert wait_until(lambda: not scratch_left(folder))


# Interrupts


def test_interrupt_tells_where_ranks_were_and_the_next_launch_works(start_launch, tmp_path):
    body = """
try:
    launch(wait_in_a_collective, world_size=2)
except KeyboardInterrupt as error:
    print(error, "interrupted", sep="\\n")
print(launch(my_rank, world_size=2).values)
"""
    program = start_launch(body)
    processes = family(program.pid)
    assert len(processes) == 5  # the fork server, two ranks, and what each has started
    time.sleep(0.5)  # for rank 1 to be inside of its call
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    said = program.communicate(timeout=60)[0].splitlines()
    assert said[0] == "where each rank was:"
    assert re.match(r"  rank 0: ./program.py:\d+, in wait_in_.*:  time.sleep\(1000\)", said[1])
    assert re.match(r"  rank 1: ./program.py:\d+, in wait_in_.*:  dist.all_reduce", said[2])
    assert "inside all_reduce(float32[3], op=SUM)" in said[3]
    assert said[4:] == ["interrupted", "[0, 1]"]
    assert not alive(processes)
    assert not scratch_left(tmp_path)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
def test_interrupt_at_any_moment(seconds):
    main = threading.main_thread().ident
    stop = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        stop.start()
        launch(time.sleep, 20, world_size=4)
    assert launch(my_rank, world_size=2).values == [0, 1]


@pytest.mark.deep
def test_results_that_came_while_the_notebook_was_stopped_count(start_python):
    body = """
import os, sys
launch(my_rank, world_size=2)
wake = f"sleep 0.3; kill -STOP {os.getpid()}; sleep 3; kill -CONT {os.getpid()}"
subprocess.Popen(["sh", "-c", wake])
print(launch(time.sleep, 1.0, world_size=2, timeout=1.5).values)
"""
    program = start_python(body)
    assert program.communicate(timeout=60)[0] == "[None, None]\n"


def test_a_launch_leaves_no_file():
    launch(my_rank, world_size=2)
    left = {path.name for path in fork_server_client._server.scratch.iterdir()}
    assert left <= {"server.log", "inductor"}  # both are the fork server's


def test_ranks_that_have_returned_are_ended_whatever_their_threads_do():
    def leave_a_thread_that_never_lets_go():
        threading.Timer(0.05, sum, [range(10**13)]).start()
        return os.getpid()

    ranks = launch(leave_a_thread_that_never_lets_go, world_size=2).values
    assert wait_until(lambda: not alive(ranks))
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_what_is_printed_last_is_read():
    text = "x" * 50_000  # less than a pipe holds
    run = launch(print, text, world_size=4)
    assert run.output == [text + "\n"] * 4


@pytest.mark.deep
def test_an_edited_package_is_imported_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(fork_server_client, "PACKAGE", tmp_path)
    for room in fork_server_client.ROOMS:
        (tmp_path / room).mkdir(exist_ok=True, parents=True)
    source = tmp_path / fork_server_client.ROOMS[-1] / "module.py"
    source.touch()
    ranks_parents = [launch(os.getppid, world_size=1).values for _ in range(2)]
    os.utime(source, (0, 0))
    ranks_parents.append(launch(os.getppid, world_size=1).values)
    assert ranks_parents[0] == ranks_parents[1] != ranks_parents[2]


def folders_of_the_package():
    names = [name for name in sys.modules if name.split(".")[0] in ("pedagogy_lib", "coursekit")]
    folders = {os.path.dirname(sys.modules[name].__file__) for name in names}
    return {os.path.relpath(folder, fork_server_client.PACKAGE) for folder in folders}


def test_what_ranks_find_imported_is_watched_for_edits():
    (found,) = launch(folders_of_the_package, world_size=1, device="cpu").values
    rooms = [room or "." for room in fork_server_client.ROOMS]
    assert found == {room for room in rooms if (fork_server_client.PACKAGE / room).is_dir()}


def late_imports():
    return "torch._dynamo" in sys.modules


def import_ddp():
    return late_imports(), DistributedDataParallel.__name__


def import_optimizer():
    return late_imports(), torch.optim.SGD.__name__


@parametrize("work", [import_ddp, import_optimizer], quick=1)
def test_what_a_ddp_or_an_optimizer_needs_is_imported_once_and_not_by_each_rank(work):
    fork_server_client.close_server()
    assert launch(late_imports, world_size=1, device="cpu").values == [False]
    assert [is_late for is_late, _ in launch(work, world_size=2, device="cpu").values] == [True] * 2


# Deaths of parents


@pytest.mark.parametrize("step", ["wait_in_a_collective", "compute_in_c"])
def test_nothing_outlives_a_killed_notebook(step, start_launch, tmp_path):
    program = start_launch(f"launch({step}, world_size=2)")
    processes = family(program.pid)
    assert len(processes) == 5
    assert scratch_left(tmp_path)
    program.kill()
    program.communicate()
    assert wait_until(lambda: not alive(processes))
    assert wait_until(lambda: not scratch_left(tmp_path))


@pytest.mark.deep
def test_a_child_of_the_notebook_does_not_keep_the_fork_server_alive(start_launch, tmp_path):
    body = """
launch(my_rank, world_size=1)
if os.fork() == 0:
    time.sleep(100)
    os._exit(0)
launch(wait_in_a_collective, world_size=2)
"""
    program = start_launch(body)
    (server_pid,) = (
        child.pid for child in psutil.Process(program.pid).children() if len(child.cmdline()) > 2
    )
    processes = [server_pid, *family(server_pid)]
    others = [pid for pid in family(program.pid) if pid not in processes]
    try:
        assert (len(processes), len(others)) == (5, 1)
        program.kill()
        assert wait_until(lambda: not alive(processes))
        assert wait_until(lambda: not scratch_left(tmp_path))
    finally:
        os.kill(others[0], signal.SIGKILL)


def test_fork_server_killed_during_a_launch(tmp_path):
    def kill_the_fork_server(folder):
        (folder / str(os.getpid())).touch()
        dist.barrier()
        if dist.get_rank() == 0:
            os.kill(os.getppid(), signal.SIGKILL)
        sum(range(10**13))  # cannot notice anything by itself

    launch(my_rank, world_size=1)
    first = fork_server_client._server
    message = str(failure(kill_the_fork_server, tmp_path, world_size=2))
    assert "the process that starts ranks was killed by SIGKILL" in message
    assert "; run the cell again" in message
    ranks = [int(path.name) for path in tmp_path.iterdir()]
    assert len(ranks) == 2
    assert wait_until(lambda: not alive(ranks))
    assert not first.scratch.exists()


def test_fork_server_killed_between_launches():
    launch(my_rank, world_size=1)
    fork_server_client._server.process.kill()
    fork_server_client._server.process.wait()
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_scratch_folder_removed_between_launches():
    launch(my_rank, world_size=1)
    shutil.rmtree(fork_server_client._server.scratch)
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_a_rank_of_the_launch_before_is_not_taken_for_one_of_this_launch():
    shared = fork_server_client.ensure_server()
    shared.await_ready()
    RankHandle(
        0, shared, "rank", Path()
    ).close()  # as if a launch had ended before it heard of its rank
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_what_the_kernel_does_not_tell_is_no_work(monkeypatch):
    """As where there is no /proc: else a rank that waits would count as busy for ever."""
    monkeypatch.setattr(processes, "stat_of", lambda pid: [])
    assert processes.state_of(os.getpid()) not in processes.WORKING
    assert processes.seconds_of(os.getpid()) == 0
