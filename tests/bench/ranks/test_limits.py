"""What a machine refuses: processes, files, memory, folders, the loopback. Each is told as such."""

import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import needs
import pytest
from helpers import ROOT, failure, my_rank, scratch_left

from pedagogy_lib import LaunchError, launch
from pedagogy_lib.machines.other_users import SWITCH
from pedagogy_lib.ranks import fork_server_client, refusals
from pedagogy_lib.ranks.fork_server import ForkServer

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="a limit of Linux")


@pytest.fixture
def anew():
    """No fork server, before the test and after it."""
    fork_server_client.close_server()
    yield
    fork_server_client.close_server()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EMFILE, "x"), "too many open files: a process may have"),
        (OSError(errno.EAGAIN, "x"), "the limit of processes and threads is reached"),
        (RuntimeError("can't start new thread"), "the limit of processes and threads is reached"),
        (RuntimeError("[gloo] accept: Too many open files"), "too many open files"),
        (OSError(errno.ENOMEM, "x"), "the machine is out of memory"),
        (OSError(errno.ENOSPC, "x"), "the disk with the temporary folder is full"),
        (RuntimeError("ifa != nullptr. Unable to find address for: lo"), "ip link set lo up"),
        (OSError(errno.EROFS, "Read-only", "/x/y"), "folder /x/y cannot be used (Read-only)"),
        (FileNotFoundError(errno.ENOENT, "No usable"), "folder cannot be used (No usable)"),
        (FileNotFoundError(errno.ENOENT, "x", sys.executable), "Python itself ("),
        (OSError(errno.EBADF, "Bad file descriptor"), "close only files that you opened"),
        (ValueError("something else"), "something else"),
    ],
)
def test_reasons(error, says):
    assert says in refusals.reason(error)


def test_a_python_that_has_gone(anew, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LaunchError, match="is not there any more: restart the kernel"):
        launch(my_rank, world_size=2)
    assert not scratch_left(tmp_path)
    monkeypatch.undo()
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_a_temporary_folder_that_has_gone(anew, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(LaunchError, match=r"folder .*gone/launch-\w+ cannot be used \(No such"):
        launch(my_rank, world_size=2)
    monkeypatch.undo()
    assert launch(my_rank, world_size=2).values == [0, 1]


@pytest.mark.deep
def test_a_temporary_folder_that_goes_between_launches(anew, monkeypatch, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert launch(my_rank, world_size=1).values == [0]
    shutil.rmtree(folder)
    with pytest.raises(LaunchError, match="name one that can be written in TMPDIR"):
        launch(my_rank, world_size=2)
    folder.mkdir()
    assert launch(my_rank, world_size=2).values == [0, 1]


@pytest.mark.deep
def test_a_notebook_that_may_not_open_enough_files():
    launch(my_rank, world_size=1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_files = len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 20, before[1]))
    try:
        with pytest.raises(LaunchError, match=r"cannot be started: too many open files: .*ulimit"):
            launch(my_rank, world_size=32)
        assert launch(my_rank, world_size=1).values == [0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert launch(my_rank, world_size=2).values == [0, 1]
    assert len(os.listdir("/dev/fd")) <= open_files + 1


@pytest.mark.deep
def test_files_on_their_way_to_the_fork_server_count_as_open(monkeypatch):
    """Linux counts those of ordinary users, and a busy server takes them late."""

    def refuse_files(*_):
        raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")

    launch(my_rank, world_size=1)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "send_fds", refuse_files)
        with pytest.raises(LaunchError, match=r"cannot be started: too many open files: .*ulimit"):
            launch(my_rank, world_size=2)
    assert launch(my_rank, world_size=2).values == [0, 1]


@pytest.mark.deep
@needs_linux
def test_a_fork_server_that_may_not_open_enough_files(anew):
    launch(my_rank, world_size=1)
    pid = fork_server_client._server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    few = len(os.listdir(f"/proc/{pid}/fd")) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, before[1]))
    with pytest.raises(LaunchError, match=r"all 2 ranks could not .*: too many open files"):
        launch(my_rank, world_size=2)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert launch(my_rank, world_size=2).values == [0, 1]
    assert fork_server_client._server.process.pid == pid


def refuse(*_):
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def test_a_fork_server_that_cannot_fork_says_so_and_lives(monkeypatch):
    monkeypatch.setattr("pedagogy_lib.ranks.fork_server.fork_rank", refuse)
    ours, theirs = socket.socketpair()
    one = ForkServer.__new__(ForkServer)  # without its hold on this process's signals
    one.control, one.method, one.fds, one.alive = theirs, "fork", (), set()
    files = os.pipe()
    socket.send_fds(ours, [b"F"], files)
    assert one.answer()
    assert ours.recv(100) == f"refused {errno.EAGAIN}\n".encode()
    for fd in files:
        os.close(fd)
    ours.close()
    theirs.close()


def test_ranks_that_are_refused_are_told(monkeypatch):
    launch(my_rank, world_size=1)
    fork = fork_server_client.Server.fork

    def fork_and_let_it_be_refused(self, channel_fd, output_fd, alone):
        with socket.socket() as other:  # one file instead of two
            self.owed, self.asked = self.owed + 1, self.asked + 1
            socket.send_fds(self.control, [b"F"], [other.fileno()])
        return self.asked

    monkeypatch.setattr(fork_server_client.Server, "fork", fork_and_let_it_be_refused)
    with pytest.raises(LaunchError, match="all 3 ranks could not be started: too many open files"):
        launch(my_rank, world_size=3)
    monkeypatch.setattr(fork_server_client.Server, "fork", fork)
    assert launch(my_rank, world_size=2).values == [0, 1]


class AbortLater:
    """Ends a rank while it joins the others, as C++ does that cannot start a thread."""

    def __reduce__(self):
        return abort_later, ()


def abort_later():
    if my_rank_by_name() == 1:
        time.sleep(3)
    else:
        threading.Timer(0.2, abort_as_cpp_does).start()


def my_rank_by_name() -> int:
    return int(os.environ["PEDAGOGY_RANK"])


def abort_as_cpp_does():
    os.write(2, b"terminate called after throwing an instance of 'std::system_error'\n")
    os.write(2, b"  what():  Resource temporarily unavailable\n")
    os.abort()


def test_a_rank_that_may_start_no_thread_for_the_network():
    message = str(failure(lambda _: 0, AbortLater(), world_size=2))
    assert message.startswith(
        "rank 0 was killed by SIGABRT while joining the other ranks: the limit of processes and "
        "threads is reached"
    )
    assert "| " in message


BESIDE = """
import random, sys
sys.path.insert(0, sys.argv[1])
import torch.distributed as dist
import pedagogy_lib
print(pedagogy_lib.__file__.startswith(sys.argv[1]))
print(pedagogy_lib.launch(dist.get_rank, world_size=2).values)
"""


def test_a_file_beside_the_course_hides_no_library(start, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(ROOT / "pedagogy_lib", course / "pedagogy_lib")
    (course / "random.py").write_text("raise ValueError('mine')")
    program = start([sys.executable, "-c", BESIDE, course], tmp_path)
    said, _ = program.communicate(timeout=120)
    assert said == "True\n[0, 1]\n"


CLOSED = """
import os, socket, torch.distributed as dist
from pedagogy_lib import launch, LaunchError
launch(dist.get_rank, world_size=2)
os.closerange(3, 256)
for _ in range(2):
    try:
        print(launch(dist.get_rank, world_size=2).values)
    except LaunchError as error:
        print(error)
"""


@pytest.mark.deep
def test_a_notebook_that_closes_what_it_did_not_open(start, tmp_path):
    program = start([sys.executable, "-c", CLOSED], tmp_path)
    said, _ = program.communicate(timeout=120)
    assert "Traceback" not in said
    assert said.endswith("[0, 1]\n")


WITHOUT_LOOPBACK = """
import torch.distributed as dist
from pedagogy_lib import launch, LaunchError
try:
    launch(dist.get_rank, world_size=2, timeout=5)
except LaunchError as error:
    print(error)
"""


def test_a_loopback_that_is_down(start, tmp_path):
    alone = ["unshare", "--map-root-user", "--net"]
    if needs.is_missing("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        needs.skip("machines", "it takes a network namespace, and unshare")
    where_it_is = {SWITCH: "0"}  # not in a network of its own, with a loopback
    program = start([*alone, sys.executable, "-c", WITHOUT_LOOPBACK], tmp_path, **where_it_is)
    said, _ = program.communicate(timeout=120)
    assert "could not join the other ranks: the loopback network of this machine is down" in said


# Names in the temporary folder that anybody can foresee

BACKWARD = """
import getpass, os, tempfile, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from pedagogy_lib import launch
from pedagogy_lib.ranks import fork_server_client as server

def step():
    DistributedDataParallel(torch.nn.Linear(2, 1))(torch.ones(2)).sum().backward()
    from torch import _dynamo  # noqa: F401
    return dist.get_rank()

for _ in range(3):
    print(launch(step, world_size=2).values)
pid = server._server.process.pid
print(pid == server.ensure_server().process.pid)
"""


@pytest.mark.deep
@pytest.mark.parametrize("is_taken", [pytest.param(False, marks=pytest.mark.deep), True])
def test_the_cache_of_torch_lies_in_our_own_folder(is_taken, start, tmp_path):
    taken = tmp_path / "torchinductor_somebody"
    if is_taken:
        taken.touch()
    program = start([sys.executable, "-c", BACKWARD], tmp_path, LOGNAME="somebody")
    said, _ = program.communicate(timeout=120)
    assert said == "[0, 1]\n" * 3 + "True\n"
    assert {path.name for path in tmp_path.iterdir()} == ({taken.name} if is_taken else set())


def test_a_cache_of_the_learners_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    values = launch(lambda: os.environ["TORCHINDUCTOR_CACHE_DIR"], world_size=1).values
    assert values == [str(tmp_path)]


def test_idle_work_that_fails_harms_nobody(monkeypatch):
    one = ForkServer.__new__(ForkServer)
    one.idle_work = ["one", "two"]
    asked = []

    def fail(name):
        asked.append(name)
        raise FileExistsError(name)

    monkeypatch.setattr("pedagogy_lib.ranks.fork_server.importlib.import_module", fail)
    one.do_idle_work()
    assert asked == ["one", "two"]
    assert one.idle_work == []


def test_no_error_of_the_machine_is_raw():
    message = str(failure(os.mkdir, "/proc/nowhere", world_size=1))
    assert "raised FileNotFoundError" in message  # the learner's own: told as such


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.E2BIG, "os.environ holds more than a program can get"),
        (errno.EACCES, "cannot be run (Permission denied)"),
        (errno.ENOENT, "is not there any more: restart the kernel"),
    ],
)
def test_why_python_cannot_be_started(number, says):
    assert says in refusals.reason(OSError(number, os.strerror(number), sys.executable))
