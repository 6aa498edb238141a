"""Bytes on the wire, as the kernel counts them, are what the theory of each collective says."""

import functools
import os
import socket
import sys
import time
import warnings

import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu as launch

from pedagogy_lib import measure
from pedagogy_lib.measuring import wire_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux' TCP counters")

SIZES = [1_000_000, 4_000_000]  # bytes
WORLD_SIZES = [2, 3, 4, 8]
CHUNK = 10_000

# What rank r of n sends and receives, where the whole tensor has x bytes and a shard x/n.
# The root is rank 0. Gloo's choices, which differ from the textbook's: reduce_scatter is an
# all_reduce and a slice, twice the textbook's (n-1)/n x; reduce is a reduce_scatter (a good one)
# and a gather; broadcast is a binomial tree, so who sends how much depends on the rank.
THEORY = {
    "all_reduce": (lambda x, n, r: 2 * (n - 1) / n * x, lambda x, n, r: 2 * (n - 1) / n * x),
    "all_gather": (lambda x, n, r: (n - 1) / n * x, lambda x, n, r: (n - 1) / n * x),
    "all_to_all": (lambda x, n, r: (n - 1) / n * x, lambda x, n, r: (n - 1) / n * x),
    "reduce_scatter": (lambda x, n, r: 2 * (n - 1) / n * x, lambda x, n, r: 2 * (n - 1) / n * x),
    "scatter": (
        lambda x, n, r: 0 if r else (n - 1) / n * x,
        lambda x, n, r: x / n if r else 0,
    ),
    "gather": (
        lambda x, n, r: x / n if r else 0,
        lambda x, n, r: 0 if r else (n - 1) / n * x,
    ),
    "reduce": (
        lambda x, n, r: x if r else (n - 1) / n * x,
        lambda x, n, r: (n - 1) / n * x * (1 if r else 2),
    ),
    "broadcast": (
        lambda x, n, r: sum(r < step and r + step < n for step in (1, 2, 4)) * x,
        lambda x, n, r: x if r else 0,
    ),
    "send": (lambda x, n, r: x if r == 0 else 0, lambda x, n, r: x if r == 1 else 0),
}


def communicate(name, x):
    """Call one collective; `x` is the whole tensor, a multiple of the world size long."""
    rank, n = dist.get_rank(), dist.get_world_size()
    shards = list(x.clone().chunk(n))
    shard, shards_of_root = shards[rank].clone(), None if rank else shards
    calls = {
        "all_reduce": lambda: dist.all_reduce(x),
        "all_gather": lambda: dist.all_gather(shards, shard),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(shard, x),
        "scatter": lambda: dist.scatter(shard, shards_of_root),
        "gather": lambda: dist.gather(shard, shards_of_root),
        "reduce": lambda: dist.reduce(x, 0),
        "broadcast": lambda: dist.broadcast(x, 0),
        "send": lambda: dist.send(x, 1) if rank == 0 else rank == 1 and dist.recv(x, 0),
    }
    calls[name]()


def whole(nbytes):
    """A tensor of at most `nbytes` that every rank can get an equal part of."""
    n = dist.get_world_size()
    return torch.ones(nbytes // 4 // n * n)


def about(expected):
    """Half a percent for the headers of messages; or 1 kB, where nothing else is sent."""
    return pytest.approx(expected, rel=0.005, abs=1000)


def every_collective():
    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 prefers reduce_scatter_single
    for nbytes in SIZES:
        for name in THEORY:
            x = whole(nbytes)
            with measure(f"{name} {nbytes}"):
                communicate(name, x)
    return [whole(nbytes).nbytes for nbytes in SIZES]


@functools.cache
def run_of(world_size):
    return launch(every_collective, world_size=world_size)


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("n", WORLD_SIZES)
@pytest.mark.parametrize("name", THEORY)
def test_collective(name, n, nbytes):
    run = run_of(n)
    block, x = run[f"{name} {nbytes}"], run.values[0][SIZES.index(nbytes)]
    sent, received = THEORY[name]
    assert block.wire == "measured"
    assert block.sent_bytes == about([sent(x, n, r) for r in range(n)])
    assert block.received_bytes == about([received(x, n, r) for r in range(n)])


@pytest.mark.parametrize("n", WORLD_SIZES)
def test_what_some_send_others_receive(n):
    run = run_of(n)
    for label in run.labels:
        assert sum(run[label].sent_bytes) == pytest.approx(
            sum(run[label].received_bytes), rel=1e-3, abs=n * 1000
        )


def test_blocks_do_not_leak_into_each_other():
    """Even if ranks come late, or are through while others still wait."""

    def step():
        rank = dist.get_rank()
        for turn in range(5):
            for nbytes in SIZES:
                x = whole(nbytes)
                time.sleep(0.01 * (rank == turn % 4))
                with measure(f"{turn} {nbytes}"):
                    communicate("all_gather", x)
                with measure(f"{turn} nothing"):
                    pass

    run = launch(step, world_size=4)
    for label in run.labels:
        nbytes = label.split()[1]
        expected = 0 if nbytes == "nothing" else 0.75 * int(nbytes)
        assert run[label].sent_bytes == about([expected] * 4)
        assert run[label].received_bytes == about([expected] * 4)


def test_a_group_in_the_world():
    def step():
        pair = dist.new_group([1, 3])
        x = torch.ones(250_000)
        with measure("it"):
            if dist.get_rank() in (1, 3):
                dist.all_reduce(x, group=pair)

    assert launch(step, world_size=4)["it"].sent_bytes == about([0, 1e6, 0, 1e6])


def test_a_group_that_is_destroyed_inside():
    """Its connections are closed, and with them go their counters; nothing is negative."""

    def step():
        pair = dist.new_group([0, 1])
        x = torch.ones(250_000)
        dist.all_reduce(x, group=pair)
        with measure("it"):
            dist.destroy_process_group(pair)
            dist.all_reduce(x)

    assert launch(step, world_size=2)["it"].sent_bytes == about([1e6, 1e6])


# ---- The learner's own files and sockets, in a world of one rank -----------------------------


def connect():
    """Two ends of a TCP connection of our own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        return ours, server.accept()[0]


def pump(one, other, count):
    for _ in range(count // CHUNK):
        one.sendall(b"x" * CHUNK)
        left = CHUNK
        while left:
            left -= len(other.recv(left))


def count_wire_bytes(step):
    block = launch(step, world_size=1)["it"]
    return block.sent_bytes[0], block.received_bytes[0]


@pytest.mark.parametrize("opened_inside", [False, True])
def test_own_connection(opened_inside):
    def step():
        ends = None if opened_inside else connect()
        with measure("it"):
            ends = ends or connect()
            pump(*ends, 1_000_000)
        pump(*ends, 50_000)

    assert count_wire_bytes(step) == (1_000_000, 1_000_000)


def test_unread_bytes_are_sent_but_not_received():
    def step():
        one, other = connect()
        with measure("before"):
            one.sendall(b"x" * CHUNK)
            time.sleep(0.05)
        with measure("it"):
            other.recv(CHUNK)
        one.close()

    run = launch(step, world_size=1)
    assert (run["before"].sent_bytes, run["before"].received_bytes) == ([CHUNK], [0])
    assert (run["it"].sent_bytes, run["it"].received_bytes) == ([0], [CHUNK])


def test_bytes_that_wait_in_the_kernel_are_sent():
    """The other side reads nothing, so that most of them stay in our send buffer."""

    def step():
        one, other = connect()
        one.setblocking(False)
        sent = 0
        with measure("it"):
            try:
                while True:
                    sent += one.send(b"x" * CHUNK)
            except BlockingIOError:
                pass
        other.close()
        return sent

    run = launch(step, world_size=1)
    assert run["it"].sent_bytes == run.values


def test_connection_closed_inside():
    def step():
        one, other = connect()
        pump(one, other, 500_000)
        with measure("it"):
            one.close()
            other.close()

    assert count_wire_bytes(step) == (0, 0)


def test_two_connections_that_use_one_file_descriptor_after_the_other():
    def step():
        first = connect()
        pump(*first, 500_000)
        with measure("it"):
            for end in first:
                end.close()
            second = connect()
            pump(*second, 100_000)

    assert count_wire_bytes(step) == (100_000, 100_000)


def use_unix_socket():
    one, other = socket.socketpair()
    pump(one, other, 100_000)


def use_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"x" * CHUNK)
    os.read(reader, CHUNK)


def use_udp():
    one, other = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
    other.bind(("127.0.0.1", 0))
    one.sendto(b"x" * CHUNK, other.getsockname())
    other.recv(CHUNK)


def use_file():
    with open("/dev/null", "wb") as file:
        file.write(b"x" * CHUNK)
    print("x" * CHUNK)


@pytest.mark.parametrize("how", [use_unix_socket, use_pipe, use_udp, use_file])
def test_only_tcp_counts(how):
    def step():
        with measure("it"):
            how()

    assert count_wire_bytes(step) == (0, 0)


def test_peers_to_ignore():
    one, other = connect()
    before = wire_bytes.wire_bytes(), wire_bytes.wire_bytes(ignore_ports=(one.getsockname()[1],))
    pump(one, other, 100_000)
    assert wire_bytes.bytes_between(before[0], wire_bytes.wire_bytes())[0] == 100_000
    without = wire_bytes.wire_bytes(ignore_ports=(one.getsockname()[1],))
    assert wire_bytes.bytes_between(before[1], without) == (100_000, 0)  # `other` has that peer
    one.close()
    other.close()
