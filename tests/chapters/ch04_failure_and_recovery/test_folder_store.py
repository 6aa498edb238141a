"""A store whose values are files: what torch asks of one, also when processes are killed."""

import os
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta

import pytest
import torch.distributed as dist
from helpers import ROOT, environment, launch_on_cpu, load_solved_lab

PATH = ROOT / "solutions" / "labs" / "folder_store.py"
LAB = load_solved_lab("folder_store")


@pytest.fixture(params=["ours", "torch's"])
def make(request, tmp_path):
    """Opens the same store each time."""
    if request.param == "ours":
        return lambda: LAB.FolderStore(tmp_path / "store")
    return lambda: dist.FileStore(str(tmp_path / "store"), -1)


def test_it_does_what_torch_s_file_store_does(make):
    one, other = make(), make()
    assert not one.check(["a/b c"])
    one.set("a/b c", "1")
    assert other.get("a/b c") == b"1" and other.check(["a/b c"])
    other.set("a/b c", "22")
    assert one.get("a/b c") == b"22"
    for text, store in (
        ("x,", one),
        ("y,", other),
        ("z,", one),
    ):  # of equal ones FileStore loses some
        store.append("list", text)
    assert one.get("list") == b"x,y,z,"
    assert one.compare_set("agreed", "", "first") == b"first"
    assert other.compare_set("agreed", "", "second") == b"first"
    assert [store.add("count", number) for store, number in ((one, 1), (other, 2), (one, -1))] == [
        1, 3, 2]  # fmt: skip
    one.set("empty", "")
    assert other.check(["empty"]) and other.get("empty") == b""
    with pytest.raises(RuntimeError, match=r"(?i)timeout"):
        one.wait(["nowhere"], timedelta(seconds=0.05))


def test_who_waits_gets_what_comes_later(make):
    threading.Timer(0.2, lambda: make().set("late", "here")).start()
    assert make().get("late") == b"here"


def write_at_once(folder):
    store, rank = LAB.FolderStore(folder), dist.get_rank()
    dist.barrier()
    for k in range(25):
        store.append("list", f"{rank}:{k},")
    won = store.compare_set("agreed", "", str(rank))
    return won, [store.add("count", 1) for _ in range(25)]


def test_of_what_is_written_at_the_same_time_nothing_is_lost(tmp_path):
    values = launch_on_cpu(write_at_once, tmp_path / "store", world_size=4).values
    written = LAB.FolderStore(tmp_path / "store").get("list").decode().split(",")[:-1]
    assert Counter(written) == Counter(f"{rank}:{k}" for rank in range(4) for k in range(25))
    assert len({won for won, _ in values}) == 1
    assert sorted(count for _, counts in values for count in counts) == list(range(1, 101))


def form_a_group(folder):
    rank, n = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    store = LAB.FolderStore(folder)
    group_store = dist.PrefixStore("group 1", store)
    dist.init_process_group("gloo", store=group_store, rank=rank, world_size=n)
    told = [None] * n
    dist.all_gather_object(told, rank)
    return told


def test_ranks_find_each_other_there(tmp_path):
    assert launch_on_cpu(form_a_group, tmp_path / "store", world_size=3).values == [[0, 1, 2]] * 3


WRITE_AND_DIE = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from folder_store import FolderStore

chance = random.Random(0)
for k in range(20):
    pid = os.fork()
    if pid == 0:
        store = FolderStore(f"{sys.argv[2]}/{k}")
        while True:
            store.append("list", "12345,")
            store.set("long", "x" * 10_000)
    time.sleep(0.02 + 0.02 * chance.random())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_killed_writers_leave_whole_values(tmp_path):
    command = [sys.executable, "-c", WRITE_AND_DIE, PATH.parent, tmp_path]
    subprocess.run(list(map(str, command)), env=environment(), check=True, timeout=120)
    for k in range(20):
        store = LAB.FolderStore(tmp_path / str(k))
        store.append("list", "12345,")
        assert set(store.get("list").decode().split(",")) == {"12345", ""}
        assert not store.check(["long"]) or store.get("long") == b"x" * 10_000
