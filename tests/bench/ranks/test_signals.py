"""Processes that are stopped, killed or deaf to signals: the fork server, ranks, their children."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from helpers import SLACK_SECONDS, alive, failure, my_rank, wait_until

from pedagogy_lib import HangError, LaunchError, Stopped, launch
from pedagogy_lib.ranks import fork_server_client
from pedagogy_lib.ranks.processes import state_of

ENOUGH = 100  # seconds, for what would never end by itself
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def fork_server() -> int:
    launch(my_rank, world_size=1)
    return fork_server_client._server.process.pid


# Stopped


def stop_some(ranks):
    dist.barrier()
    if dist.get_rank() in ranks:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.barrier()


@needs_linux
def test_many_stopped_ranks_are_asked_at_once():
    launch(my_rank, world_size=16)
    began = time.perf_counter()
    with pytest.raises(HangError) as caught:
        launch(stop_some, range(16), world_size=16, timeout=2.0)
    assert time.perf_counter() - began < 3.0 + SLACK_SECONDS / 2
    assert not [
        place for place in caught.value.waits.values() if str(place) != "stopped by a signal"
    ]
    assert "15 are stopped by a signal (SIGSTOP)" in str(caught.value)
    assert launch(my_rank, world_size=2).values == [0, 1]


@needs_linux
def test_one_stopped_rank_is_told_from_those_that_wait_for_it():
    error = failure(stop_some, [1], world_size=3, timeout=1.5)
    assert "dist.barrier()" in str(error.waits[0])
    assert "Rank 1 is stopped by a signal" in str(error)
    assert "endless loop" not in str(error)


@pytest.mark.deep
def test_busy_ranks_are_asked_at_once():
    error = failure(sum, range(10**13), world_size=6, timeout=1.5)
    assert "Ranks 0, 1, 2, 3, 4, 5 are still" in str(error)


@needs_linux
def test_a_fork_server_that_was_stopped_goes_on():
    pid = fork_server()
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: state_of(pid) == "T")
    assert launch(torch.sum, torch.ones(5_000_000), world_size=2, timeout=20).values == [5e6] * 2
    assert fork_server_client._server.process.pid == pid


@needs_linux
def test_a_fork_server_that_is_stopped_during_a_launch_goes_on():
    def stop_the_fork_server():
        dist.barrier()
        if dist.get_rank() == 0:
            os.kill(os.getppid(), signal.SIGSTOP)
        dist.barrier()
        os._exit(3)

    error = failure(stop_the_fork_server, world_size=2, timeout=ENOUGH)
    assert "ended with exit code 3" in str(error)


# Killed


@needs_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_ranks_have_started_ends_with_a_killed_fork_server(number, tmp_path):
    def start_and_kill(folder):
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        (folder / str(child.pid)).touch()
        if os.fork() == 0:
            os.setsid()
            (folder / str(os.getpid())).touch()
            time.sleep(1000)
        while len(os.listdir(folder)) < 4:
            time.sleep(0.01)
        os.kill(os.getppid(), number)
        time.sleep(1000)

    message = str(failure(start_and_kill, tmp_path, world_size=2))
    assert f"the process that starts ranks was killed by {number.name}" in message
    started = [int(path.name) for path in tmp_path.iterdir()]
    assert wait_until(lambda: not alive(started)), alive(started)


def test_the_reason_of_a_broken_fork_server_is_told(monkeypatch, tmp_path):
    script = tmp_path / "fork_server.py"
    script.write_text("raise ImportError('libtorch.so is missing')")
    fork_server_client.close_server()
    monkeypatch.setattr(fork_server_client, "SCRIPT", script)
    with pytest.raises(
        LaunchError, match=r"has ended \(ImportError: libtorch.so is missing\); run"
    ):
        launch(my_rank, world_size=1)
    monkeypatch.undo()
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_a_killed_fork_server_that_has_no_ranks():
    pid = fork_server()
    scratch = fork_server_client._server.scratch
    os.kill(pid, signal.SIGTERM)
    assert wait_until(lambda: not alive([pid]))
    assert launch(my_rank, world_size=2).values == [0, 1]
    assert not scratch.exists()


# Deaf

DEAF = """
import os, signal, time
import torch, torch.distributed as dist
from pedagogy_lib import launch, LaunchError

def exit_3():
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()

signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
launch(dist.get_rank, world_size=2)
began = time.perf_counter()
try:
    launch(exit_3, world_size=2)
except LaunchError as error:
    print(error, time.perf_counter() - began < 8, sep="\\n")
"""


@pytest.mark.deep
def test_a_notebook_that_blocks_signals(start, tmp_path):
    said, _ = start([sys.executable, "-c", DEAF], tmp_path).communicate(timeout=120)
    assert said == "rank 1 ended with exit code 3 before it returned\nTrue\n"


@needs_linux
def test_ranks_that_block_signals():
    def block_and_loop():
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        while True:
            time.sleep(1)

    assert "time.sleep(1)" in str(failure(block_and_loop, world_size=2, timeout=1.5))


# Interrupts: no line of the library is shown


class Slow:
    """Takes long to be pickled, and to be unpickled."""

    def __init__(self, to_pickle, to_unpickle):
        self.to_pickle, self.to_unpickle = to_pickle, to_unpickle

    def __reduce__(self):
        time.sleep(self.to_pickle)
        return time.sleep, (self.to_unpickle,)


class SlowInTheNotebook:
    """Takes long to be unpickled there, where nothing can end it."""

    def __reduce__(self):
        return sleep_in_the_notebook, ()


def sleep_in_the_notebook():
    if "PEDAGOGY_RANK" not in os.environ:
        time.sleep(5)


def slow_value(*seconds):
    return Slow(*seconds)


def interrupt_launch(step, *args, times=(0.7,)) -> Stopped:
    launch(my_rank, world_size=1)
    main = threading.main_thread().ident
    timers = [threading.Timer(t, signal.pthread_kill, (main, signal.SIGINT)) for t in times]
    with pytest.raises(Stopped) as caught:
        for timer in timers:
            timer.start()
        launch(step, *args, world_size=2)
    for timer in timers:
        timer.join()
    assert launch(my_rank, world_size=2).values == [0, 1]
    return caught.value


def test_an_interrupt_before_there_are_ranks():
    assert "stopped before its ranks had begun" in str(interrupt_launch(print, Slow(5, 0)))


def test_an_interrupt_while_arguments_are_unpacked():
    assert "ranks 0, 1: unpacking" in str(interrupt_launch(print, Slow(0, 5)))


def test_an_interrupt_while_values_are_packed():
    assert "in __reduce__():  time.sleep(self.to_pickle)" in str(interrupt_launch(slow_value, 5, 0))


def test_an_interrupt_while_values_are_tried_out_in_ranks():
    assert "ranks 0, 1: returned; the value travels" in str(interrupt_launch(slow_value, 0, 5))


def test_an_interrupt_while_values_are_unpacked():
    assert "ranks 0, 1: have returned" in str(interrupt_launch(SlowInTheNotebook))


@pytest.mark.deep
def test_a_second_interrupt_during_the_first_still_ends_the_launch():
    interrupt_launch(sum, range(10**13), times=(0.5, 0.7))


def test_an_interrupt_while_the_fork_server_starts():
    fork_server_client.close_server()
    main = threading.main_thread().ident
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(Stopped, match="stopped before its ranks had begun"):
        timer.start()
        launch(my_rank, world_size=2)
    timer.join()
    assert launch(my_rank, world_size=2).values == [0, 1]
