"""What a rank waits for, outside of torch.distributed or inside its modules, and in which group."""

import fcntl
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from helpers import failure
from selection import parametrize
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from pedagogy_lib import HangError
from pedagogy_lib.basics.flight_recorder import GroupCalls
from pedagogy_lib.basics.group_diagnosis import find_circle, find_difference

TIMEOUT = 1.5


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(1000)


def load_data():
    next(iter(DataLoader(Slow(), num_workers=1)))


def wait_for_a_process():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"], check=True)


def wait_for_a_system_call():
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    os.waitpid(child, 0)


def wait_for_another_process():
    multiprocessing.get_context("fork").Queue().get()


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    with lock:
        pass


def wait_for_an_event():
    threading.Event().wait()


def wait_for_a_file():
    with open(__file__) as held, open(__file__) as again:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(again, fcntl.LOCK_EX)


def wait_for_a_key():
    store = dist.distributed_c10d._get_default_store()
    store.get("ready")


def wait_for_the_network():
    here, _there = socket.socketpair()
    here.recv(1)


def poll():
    while not os.path.exists("/nowhere/ready"):
        time.sleep(0.01)


def wait_in_c():
    os.eventfd_read(os.eventfd(0))


def work_forever():
    while True:
        pass


ALONE = [
    (load_data, "waiting for a batch from the workers of a DataLoader"),
    (wait_for_a_key, "waiting for a key in the store"),
    (poll, "asleep, in time.sleep() or the like: in a loop"),
    (work_forever, "still at work, in no call of torch.distributed. An endless loop?"),
    (wait_in_c, "waiting in a call that is none of torch.distributed, without computing"),
    (wait_for_a_process, "waiting for another process on the same machine"),
    (wait_for_a_system_call, "waiting for another process on the same machine"),
    (wait_for_another_process, "waiting for another process on the same machine"),
    (wait_for_a_lock, "waiting for another thread of the same rank"),
    (wait_for_an_event, "waiting for another thread of the same rank"),
    (wait_for_a_file, "waiting for a file or for its lock"),
    (wait_for_the_network, "waiting for the other end of a connection"),
]


@parametrize("wait, sentence", ALONE, quick=5, ids=[wait.__name__ for wait, _ in ALONE])
def test_a_rank_that_waits_alone(wait, sentence):
    def step():
        if dist.get_rank() == 1:
            wait()
        dist.all_reduce(torch.ones(3))

    error = failure(step, world_size=2, timeout=TIMEOUT)
    assert type(error) is HangError
    assert error.advice.startswith(f"Rank 1 is {sentence}")
    assert error.waits[1].function == wait.__name__
    assert error.waits[0].operation == "all_reduce"


def forward_alone():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    ddp = DistributedDataParallel(model)
    ddp(torch.ones(4, 2)).sum().backward()
    if dist.get_rank() == 0:
        with torch.no_grad():
            ddp(torch.ones(4, 2))


def shard_alone():
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(2, 2)
    fully_shard(model)
    if dist.get_rank() == 0:
        model(torch.ones(4, 2))


def gather_alone():
    from torch.distributed.tensor import Shard, distribute_tensor

    x = distribute_tensor(torch.ones(4), dist.init_device_mesh("cpu", (2,)), [Shard(0)])
    if dist.get_rank() == 0:
        x.full_tensor()


def save_alone():
    import torch.distributed.checkpoint as dcp

    if dist.get_rank() == 0:
        dcp.save({"x": torch.ones(3)}, checkpoint_id=os.environ["PEDAGOGY_FOLDER"])


def make_group_alone():
    if dist.get_rank() == 0:
        dist.new_group([0, 1])


MODULES = [
    (forward_alone, "the forward of DistributedDataParallel", "a rank that evaluates alone calls"),
    (shard_alone, "the forward of an FSDP module", "Rank 1 is already back"),
    (gather_alone, "full_tensor(", "Rank 1 is already back"),
    (save_alone, "save(", "Rank 1 is already back"),
    (make_group_alone, "new_group(ranks=[0, 1])", "Rank 0 is in new_group(), which connects"),
]


@parametrize("step, call, advice", MODULES, quick=2, ids=[step.__name__ for step, *_ in MODULES])
def test_a_rank_that_is_alone_in_a_call_of_a_module(step, call, advice):
    error = failure(step, world_size=2, timeout=3.0)
    assert error.waits[1] is None
    assert error.waits[0].call.startswith(call)
    assert advice in error.advice


def make_own_group():
    ranks = [0, 3] if dist.get_rank() in (0, 3) else [1, 2]
    dist.all_reduce(torch.ones(1), group=dist.new_group(ranks))


def go_round():
    groups = [dist.new_group(ranks) for ranks in ([0, 1], [1, 2], [0, 2])]
    first, second = {0: (0, 2), 1: (1, 0), 2: (2, 1)}[dist.get_rank()]
    for number in first, second:
        dist.all_reduce(torch.ones(1), group=groups[number])


def leave_one_out():
    for number in range(5):
        if (dist.get_rank(), number) != (2, 3):
            dist.all_reduce(torch.ones(number + 1))


def one_more():
    for _ in range(5 + (dist.get_rank() == 0)):
        dist.all_reduce(torch.ones(2))


GROUPS = [
    (
        go_round,
        3,
        "The ranks wait in a circle: rank 0 waits in group 1 (ranks 0, 1) for rank 1, rank 1 waits "
        "in group 2 (ranks 1, 2) for rank 2, rank 2 waits in group 3 (ranks 0, 2) for rank 0.",
    ),
    (
        leave_one_out,
        3,
        "Collective 4 of the group of all ranks is all_reduce(float32[4]) on ranks 0, 1, but "
        "all_reduce(float32[5]) on rank 2.",
    ),
    (
        one_more,
        3,
        "Ranks 1, 2 have begun 5 collectives of the group of all ranks so far, and the others wait "
        "in number 6, all_reduce(float32[2]).",
    ),
    (
        make_own_group,
        4,
        "Every rank must call new_group() for every group, in the same order, also",
    ),
]


@parametrize("step, ranks, advice", GROUPS, quick=3, ids=[step.__name__ for step, *_ in GROUPS])
def test_groups(step, ranks, advice):
    error = failure(step, world_size=ranks, timeout=TIMEOUT)
    assert type(error) is HangError, error
    assert advice in error.advice


def calls(label, ranks, begun, ended):
    return GroupCalls(label, ranks, begun, ended, dict.fromkeys((1, 2), "all_reduce(float32[1])"))


def test_no_circle_where_a_rank_is_only_late():
    late = {0: {"1": calls("1", (0, 1), 2, 1)}, 1: {"1": calls("1", (0, 1), 1, 1)}}
    assert find_circle(late) == ""
    assert find_difference(late).startswith("Rank 1 has begun 1 collective of group 1 (ranks 0, 1)")


@pytest.mark.parametrize("begun", [0, 2])
def test_nothing_is_said_of_ranks_that_agree_or_have_not_begun(begun):
    of_group = {0: {"1": calls("1", (0, 1), 2, 1)}, 1: {"1": calls("1", (0, 1), begun, begun)}}
    assert find_difference(of_group) == ""
