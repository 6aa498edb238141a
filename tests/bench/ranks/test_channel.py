"""Between rank and notebook: what is no message, what hangs on its way, and large values."""

import os
import pickle
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict

import pytest
import torch
import torch.distributed as dist
from helpers import failure, my_rank

from pedagogy_lib import HangError, LaunchError, RankError, launch
from pedagogy_lib.ranks.messages import (
    HEADER,
    WORD,
    Garbage,
    MessageReader,
    ReturnReport,
    StageReport,
    send_message,
)
from pedagogy_lib.ranks.packing import pack_value, unpack_value

TIMEOUT = 2.0
ENOUGH = 100  # seconds, for what would never end by itself
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class UnpickleHook:
    """Something that calls a function when it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class PickleHook:
    """Something that calls a function when it is pickled."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        self.function(*self.args)
        return int, ()


def take(_):
    return 0


def stop_this_process():
    os.kill(os.getpid(), signal.SIGSTOP)


# What is no message


def write_to_the_notebook(data):
    """As a program does that writes to file descriptors it did not open."""
    for name in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{name}"):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family == socket.AF_UNIX:
                    one.send(data)


def speak_nonsense(data):
    if dist.get_rank() == 1:
        write_to_the_notebook(data)
    dist.barrier()
    time.sleep(ENOUGH)


def part(content, length=None):
    return HEADER.pack(WORD, False, len(content) if length is None else length) + content


@needs_linux
@pytest.mark.parametrize(
    "data",
    [
        b"a line of text, which is longer than a header\n",
        b"\x00" * 64,
        b"\xff" * 64,
        part(b"no pickle"),
        part(pickle.dumps(("surprise", {}))),
        part(pickle.dumps(StageReport("surprise"))),
        part(pickle.dumps(ReturnReport)),
        part(pickle.dumps(ReturnReport.__new__(ReturnReport))),  # without its fields
        part(pickle.dumps(7)),
    ],
)
def test_nonsense_in_a_ranks_connection(data):
    error = failure(speak_nonsense, data, world_size=2, timeout=ENOUGH)
    assert type(error) is RankError
    assert str(error).startswith(
        "rank 1 wrote something of its own into its connection to the note"
    )


@needs_linux
@pytest.mark.parametrize("length", [1 << 34, 1 << 62])
def test_a_part_that_never_comes(length):
    error = failure(speak_nonsense, part(b"", length), world_size=2, timeout=TIMEOUT)
    assert isinstance(error, HangError) == (length == 1 << 34)


def test_messages_arrive_in_any_pieces():
    ours, theirs = socket.socketpair()
    message = ReturnReport(
        pack_value((torch.arange(100_000), b"x" * 100, "ä")), "tuple", [], "", False
    )
    threading.Thread(target=send_message, args=(theirs, message)).start()
    reader, got = MessageReader(ours), []
    while not got:
        assert reader.read()
        got += reader.messages()
    tensor, *others = unpack_value(0, got[0].take_value(), "tuple")
    assert (tensor == torch.arange(100_000)).all()
    assert others == [b"x" * 100, "ä"]
    theirs.send(b"nonsense, and more of it")
    reader.read()
    with pytest.raises(Garbage):
        list(reader.messages())
    ours.close()
    theirs.close()


def test_a_rank_that_closes_every_file():
    error = failure(lambda: os.closerange(3, 256), world_size=2)
    # Who finds out first: the rank that wants to speak, or the thread of Gloo in it.
    said = "was closed by this program: close only files that you opened"
    assert said in " ".join(str(error).split())


@needs_linux
def test_a_rank_that_becomes_another_program():
    error = failure(lambda: os.execvp("sleep", ["sleep", "100"]), world_size=2, timeout=TIMEOUT)
    assert "Ranks 0, 1 are cut off from the notebook" in str(error)


# The way there


def test_arguments_that_hang_when_they_are_unpacked():
    argument = UnpickleHook(time.sleep, ENOUGH)
    error = failure(take, argument, world_size=2, timeout=TIMEOUT)
    assert type(error) is HangError
    assert str(error).startswith("after 2 s, 0 of 2 ranks had returned")
    assert "ranks 0, 1: unpacking the function and its arguments" in str(error)
    assert "Ranks 0, 1 are still unpacking the function and its arguments" in str(error)


def test_arguments_that_hang_in_the_learners_own_line():
    def wait_for_ever():
        time.sleep(ENOUGH)

    error = failure(take, UnpickleHook(wait_for_ever), world_size=2, timeout=TIMEOUT)
    assert "in wait_for_ever():  time.sleep(ENOUGH)" in str(error)
    assert "are still unpacking the function and its arguments" in str(error)


@pytest.mark.parametrize(
    ("leave", "told"),
    [(os._exit, "ended with exit code 3"), (sys.exit, "raised SystemExit: 3")],
)
def test_arguments_that_exit_when_they_are_unpacked(leave, told):
    message = str(failure(take, UnpickleHook(leave, 3), world_size=1))
    assert message.startswith(f"rank 0 {told}")
    assert "while unpacking the function and its arguments" in message


def test_large_arguments_to_ranks_that_do_not_read():
    class Slow:
        def __setstate__(self, state):
            time.sleep(ENOUGH)

    slow = Slow()
    slow.tensor = torch.ones(3_000_000)
    error = failure(take, slow, world_size=4, timeout=TIMEOUT)
    assert "in __setstate__():  time.sleep(ENOUGH)" in str(error)


# The way back


def test_a_value_takes_the_time_it_takes():
    run = launch(lambda: torch.empty(60_000_000), world_size=4, timeout=1.0)
    assert [value.nbytes for value in run.values] == [240_000_000] * 4


def test_packing_a_value_may_take_longer_than_the_timeout():
    run = launch(lambda: PickleHook(sum, range(10**8)), world_size=1, timeout=1.0)
    assert run.values == [0]


def test_a_value_that_hangs_while_it_is_packed():
    error = failure(lambda: PickleHook(time.sleep, ENOUGH), world_size=2, timeout=TIMEOUT)
    assert type(error) is HangError
    assert str(error).startswith("after 2 s, 2 of 2 ranks had returned")
    assert "self.function(*self.args)" in str(error)
    assert "Ranks 0, 1 are back, but what the function returned does not arrive" in str(error)


def test_a_rank_that_dies_while_its_value_is_packed():
    message = str(failure(lambda: PickleHook(os._exit, 3), world_size=1))
    assert message == "rank 0 ended with exit code 3 while its value travelled"


def test_a_value_that_exits_when_it_is_unpacked():
    error = failure(lambda: UnpickleHook(sys.exit, 3), world_size=2)
    assert str(error).startswith(
        "rank 0 returned a UnpickleHook, which lives in ranks only (System"
    )


def test_a_value_that_hangs_when_it_is_unpacked():
    began = time.perf_counter()
    error = failure(lambda: UnpickleHook(time.sleep, ENOUGH), world_size=2, timeout=TIMEOUT)
    assert type(error) is HangError
    assert "look at what it does when it is pickled or unpickled" in str(error)
    assert time.perf_counter() - began < ENOUGH / 2


def test_a_value_that_ends_the_process_when_it_is_unpacked():
    message = str(failure(lambda: UnpickleHook(os._exit, 3), world_size=1))
    assert message == "rank 0 ended with exit code 3 while its value travelled"


@pytest.mark.parametrize(
    ("value", "times"),
    [
        ([torch.ones(3), {"a": (1, "b")}, torch.nn.Linear(2, 2), OrderedDict(), int, len], 0),
        (UnpickleHook(time.sleep, ENOUGH), 1),
    ],
)
def test_only_classes_of_others_are_tried_out_in_a_rank(value, times, monkeypatch):
    tried = []
    monkeypatch.setattr(
        "pedagogy_lib.ranks.packing.cloudpickle.loads", lambda *_, **__: tried.append(1)
    )
    pack_value(value)
    assert len(tried) == times


def return_and_stop():
    threading.Timer(0.05, stop_this_process).start()
    return torch.ones(200_000_000)


@needs_linux
def test_a_rank_that_is_stopped_while_its_value_travels():
    error = failure(return_and_stop, world_size=1, timeout=TIMEOUT)
    assert "Rank 0 is stopped by a signal" in str(error)


PEAK = """
import resource, torch
from pedagogy_lib import launch
launch(int, world_size=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
values = launch(torch.ones, 50_000_000, world_size=2).values
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.deep
@needs_linux
def test_large_values_are_kept_once(start, tmp_path):
    program = start([sys.executable, "-c", PEAK], tmp_path)
    said, _ = program.communicate(timeout=120)
    assert int(said) < 1.5 * 2 * 200_000_000


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64],
)
@pytest.mark.parametrize("length", [0, 1, 100_000])
def test_tensors_of_any_type_and_size(dtype, length):
    tensor = torch.ones(length).to(dtype)
    value = unpack_value(0, [bytearray(part.raw()) for part in pack_value(tensor)], "Tensor")
    assert (value.dtype, value.shape) == (dtype, tensor.shape)
    assert value.view(torch.uint8).equal(tensor.view(torch.uint8))


def test_arrived_values_can_be_changed():
    tensor, weight = launch(lambda: (torch.zeros(100_000), torch.nn.Linear(300, 300)),
                            world_size=1).values[0]  # fmt: skip
    tensor += 1
    torch.optim.SGD(weight.parameters(), lr=0.1)
    weight(torch.ones(300)).sum().backward()
    assert tensor.sum().item() == 100_000
    assert weight.weight.grad is not None


# What a rank deletes


def delete_folder_and(then):
    dist.barrier()  # all ranks have met, so nobody needs the store any more
    shutil.rmtree(os.environ["PEDAGOGY_FOLDER"], ignore_errors=True)
    return then()


def wait_in_c():
    sum(range(10**13))


def boom():
    raise ValueError("boom")


@pytest.mark.deep
def test_a_rank_that_deletes_the_launchs_folder():
    error = failure(delete_folder_and, boom, world_size=2)
    assert "ValueError: boom\n  at ./tests/bench/ranks/test_channel.py:" in str(error)
    error = failure(delete_folder_and, wait_in_c, world_size=2, timeout=TIMEOUT)
    assert "ranks 0, 1: at a place that it does not tell" in str(error)


def test_a_rank_that_deletes_the_notebooks_folder(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    with pytest.raises(LaunchError, match="boom") as caught:
        launch(lambda folder: shutil.rmtree(folder) or boom(), gone, world_size=1)
    assert 'raise ValueError("boom")' in str(caught.value)
    monkeypatch.chdir(tmp_path)
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_memory_that_a_rank_may_not_have():
    def take_too_much():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        return torch.ones(10**10)

    error = failure(take_too_much, world_size=1)
    assert type(error) is RankError
    assert "torch.ones(10**10)" in str(error)


def test_a_daemon_that_keeps_a_ranks_output_open():
    def start_a_daemon():
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return dist.get_rank()

    began = time.perf_counter()
    assert launch(start_a_daemon, world_size=2).values == [0, 1]
    assert time.perf_counter() - began < ENOUGH / 2
