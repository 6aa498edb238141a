"""A disk of one's own: small, really full, and gone with what holds it."""

import errno
import os
import signal

import needs
import pytest
from helpers import launch_on_cpu, wait_until
from machines_here import run_as

from pedagogy_lib import Disk, LaunchError
from pedagogy_lib.machines import disks, other_users

needs_disk = needs.mark("a disk of one's own")

PROGRAM = """
import os
os.environ[{switch!r}] = "0"
from pedagogy_lib import Disk
with Disk(megabytes=1) as disk:
    (disk.path / "some").write_bytes(bytes(600_000))
    try:
        (disk.path / "more").write_bytes(bytes(600_000))
    except OSError as error:
        print(error.strerror, (disk.path / "some").stat().st_size, disk.free_bytes)
print(disk)
"""


def write(path, size):
    try:
        path.write_bytes(bytes(size))
        return None
    except OSError as error:
        return error.errno, path.stat().st_size


@needs_disk
def test_ranks_share_a_disk_that_is_full_one_day():
    with Disk(megabytes=1) as disk:
        room = disk.free_bytes
        assert room == pytest.approx(1e6, rel=0.01)
        assert launch_on_cpu(write, disk.path / "a", 600_000, world_size=1).values == [None]
        ((number, written),) = launch_on_cpu(write, disk.path / "b", 600_000, world_size=1).values
        assert number == errno.ENOSPC
        assert 0 < written < 600_000
        assert disk.free_bytes == 0
        assert "0 B of free room" in repr(disk)
        (disk.path / "a").unlink()
        assert disk.free_bytes > 0.5 * room
    assert repr(disk) == "a disk that is gone"


@needs_disk
def test_nothing_is_left_of_it():
    with Disk() as disk:
        assert os.path.isdir(disk.folder.name)
        assert os.listdir(disk.folder.name) == []  # what lies on it is seen by its path alone
        (disk.path / "some").write_bytes(b"1")
    assert disk.holder.returncode is not None
    assert not disk.path.exists()
    assert not os.path.exists(disk.folder.name)
    disk.close()  # once more does no harm


@needs_disk
def test_it_ends_with_its_notebook(start, tmp_path):
    program = (
        "from pedagogy_lib import Disk; import time; disk = Disk(); "
        "print(disk.holder.pid, flush=True); time.sleep(60)"
    )
    notebook = start(["python", "-c", program], tmp_path)
    pid = int(notebook.stdout.readline())
    notebook.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.parametrize("who", ["root", "somebody"])
@needs_disk
def test_whoever_may_have_namespaces_may_have_one(who, tmp_path):
    done = run_as(who, PROGRAM.format(switch=other_users.SWITCH), tmp_path)
    if "no disk" in done.stdout:
        needs.skip("a disk of one's own", done.stdout)
    told = ["No space left on device 600000 0", "a disk that is gone"]
    assert done.stdout.splitlines() == told, done.stdout + done.stderr


@pytest.mark.parametrize("size", [0, -1, True, "4", None, float("nan"), 1e9])
def test_a_size_that_makes_no_sense(size):
    with pytest.raises(LaunchError, match=r"megabytes is a number from 0\.01 to 1000, not"):
        Disk(size)


def test_where_there_can_be_none(monkeypatch, capfd):
    monkeypatch.setenv(other_users.SWITCH, "0")  # whoever else uses this computer
    monkeypatch.setattr(disks.sys, "platform", "darwin")
    assert Disk.here() is None
    assert "a disk of one's own needs Linux" in "".join(capfd.readouterr())
    with pytest.raises(LaunchError, match="needs Linux"):
        Disk()
    with pytest.raises(LaunchError, match="megabytes is a number"):
        Disk.here("large")
