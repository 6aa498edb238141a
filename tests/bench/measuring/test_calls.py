"""Where the kernel does not count: bytes from the calls, by the textbook's formula, exactly."""

import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from helpers import launch_on_cpu as launch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import measure
from pedagogy_lib.measuring import recorder

X = 9600  # bytes of a whole tensor; a multiple of 4 * n for every world size n


def figures(calls):
    """All but the peer."""
    return [call[:4] for call in calls]


def count_from_calls():
    """What a rank does by itself where it cannot read the kernel's counters."""
    recorder._recorder.wire = "counted"
    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 renames *_tensor to *_single


def ring(x, n, p):
    return (n - 1) * x // n, (n - 1) * x // n


def twice_around(x, n, p):
    return 2 * (n - 1) * x // n, 2 * (n - 1) * x // n


def scatter_bytes(x, n, p):
    return ((n - 1) * x // n, 0) if p == 0 else (0, x // n)


def gather_bytes(x, n, p):
    return scatter_bytes(x, n, p)[::-1]


def chain_from_root(x, n, p):
    return (x if p < n - 1 else 0), (x if p > 0 else 0)


def chain_to_root(x, n, p):
    return chain_from_root(x, n, p)[::-1]


def whole(x, n):
    return x


def shard(x, n):
    return x // n


# How the rank at position p after the root sends and receives, by n and the whole tensor's x
# bytes; and how many bytes it puts in (or gets in a scatter).
THEORY = {
    "all_reduce": (twice_around, whole),
    "all_gather": (ring, shard),
    "reduce_scatter": (ring, whole),
    "all_to_all": (ring, whole),
    "broadcast": (chain_from_root, whole),
    "reduce": (chain_to_root, whole),
    "gather": (gather_bytes, shard),
    "scatter": (scatter_bytes, shard),
}


def spellings(x, group, root) -> dict:
    """Every way to call a collective. `root` is a rank of the world, as it is for torch."""
    n = group.size()
    shards = list(x.clone().chunk(n))
    part, at_root = shards[0].clone(), dist.get_rank() == root
    parts_of_root = shards if at_root else None
    return {
        "all_reduce": lambda: dist.all_reduce(x, group=group),
        "all_reduce coalesced": lambda: dist.all_reduce_coalesced(shards, group=group),
        "all_reduce functional": lambda: functional.all_reduce(x, "sum", group),
        "all_reduce async": lambda: dist.all_reduce(x, group=group, async_op=True).wait(),
        "all_gather": lambda: dist.all_gather(shards, part, group=group),
        "all_gather tensor": lambda: dist.all_gather_into_tensor(x, part, group=group),
        "all_gather functional": lambda: functional.all_gather_tensor(part, 0, group),
        "reduce_scatter": lambda: dist.reduce_scatter(part, shards, group=group),
        "reduce_scatter tensor": lambda: dist.reduce_scatter_tensor(part, x, group=group),
        "reduce_scatter functional": lambda: functional.reduce_scatter_tensor(x, "sum", 0, group),
        "all_to_all": lambda: dist.all_to_all(list(x.clone().chunk(n)), shards, group=group),
        "all_to_all single": lambda: dist.all_to_all_single(x.clone(), x, group=group),
        "all_to_all functional": lambda: functional.all_to_all_single(x, None, None, group),
        "broadcast": lambda: dist.broadcast(x, root, group=group),
        "broadcast functional": lambda: functional.broadcast(
            x, dist.get_group_rank(group, root), group
        ),
        "reduce": lambda: dist.reduce(x, root, group=group),
        "gather": lambda: dist.gather(part, parts_of_root, root, group=group),
        "scatter": lambda: dist.scatter(part, parts_of_root, root, group=group),
    }


def call_everything(members, root):
    count_from_calls()
    group = dist.new_group(members)
    if dist.get_rank() not in members:
        return
    x = torch.ones(X // 4)
    for label, call in spellings(x, group, root).items():
        with measure(label):
            call()


@pytest.mark.parametrize(
    "world_size, members, root",
    [
        (1, [0], 0),
        (2, [0, 1], 0),
        (3, [0, 1, 2], 0),
        (4, [0, 1, 2, 3], 0),
        (5, [0, 1, 2, 3, 4], 3),
        (4, [0, 2], 2),
        (4, [1, 2, 3], 2),
    ],
)
def test_every_spelling(world_size, members, root):
    run = launch(call_everything, members, root, world_size=world_size)
    assert len(run.labels) == 18
    n = len(members)
    for label in run.labels:
        name, block = label.split()[0], run[label]
        theory, put_in = THEORY[name]
        assert block.wire == "counted"
        for place, rank in enumerate(members):
            expected = theory(X, n, (place - members.index(root)) % n)
            assert (block.sent_bytes[rank], block.received_bytes[rank]) == expected, label
            assert figures(block.calls[rank]) == [(name, put_in(X, n), *expected)], label


def test_send_and_receive():
    def step():
        count_from_calls()
        x, rank = torch.ones(1000), dist.get_rank()
        with measure("it"):
            if rank == 0:
                dist.send(x, 2)
            if rank == 2:
                dist.recv(x)
                dist.isend(x[:500], 1).wait()
            if rank == 1:
                dist.irecv(x[:500], 2).wait()

    block = launch(step, world_size=3)["it"]
    assert [[call.name for call in rank] for rank in block.calls] == [
        ["send"],
        ["recv"],
        ["recv", "send"],
    ]
    assert block.sent_bytes == [4000, 0, 2000]
    assert block.received_bytes == [0, 2000, 4000]


def test_a_barrier_is_a_call_without_bytes():
    def step():
        count_from_calls()
        with measure("it"):
            dist.barrier()

    block = launch(step, world_size=2)["it"]
    assert figures(block.calls[0]) == [("barrier", 0, 0, 0)]
    assert block.sent_bytes == [0, 0]


def test_nested_and_repeated_blocks():
    def step():
        count_from_calls()
        x = torch.ones(1000)
        with measure("outer", memory=False):
            dist.all_reduce(x)
            for _ in range(2):
                with measure("inner"):
                    dist.all_reduce(x)

    run = launch(step, world_size=2)
    assert run["outer"].sent_bytes == [12000, 12000]
    assert run["inner"].sent_bytes == [8000, 8000]


# ---- The real engines -----------------------------------------------------------------------

MODEL_BYTES = 4 * (16 * 32 + 32 + 32 * 16 + 16)


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))


def train_ddp():
    count_from_calls()
    model = DistributedDataParallel(mlp())
    for label in ("first", "rebuilds its buckets", "steady"):
        with measure(label):
            model(torch.ones(8, 16)).sum().backward()


def test_ddp_all_reduces_the_model():
    run = launch(train_ddp, world_size=4)
    calls = run["steady"].calls[0]
    assert {call.name for call in calls} == {"all_reduce"}
    assert sum(call.tensor_bytes for call in calls) == MODEL_BYTES
    assert run["steady"].sent_bytes == [1.5 * MODEL_BYTES] * 4


def train_fsdp():
    count_from_calls()
    model = mlp()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    with measure("it"):
        model(torch.ones(8, 16)).sum().backward()


def test_fsdp_gathers_twice_and_scatters_once():
    """Textbook bytes: 3 (n-1)/n of the model. Gloo moves more, which the kernel would tell."""
    block = launch(train_fsdp, world_size=4)["it"]
    gathers = [call for call in block.calls[0] if call.name == "all_gather"]
    scatters = [call for call in block.calls[0] if call.name == "reduce_scatter"]
    assert len(gathers) + len(scatters) == len(block.calls[0])
    assert sum(call.tensor_bytes for call in scatters) == MODEL_BYTES
    assert 4 * sum(call.tensor_bytes for call in gathers) == 2 * MODEL_BYTES
    assert block.sent_bytes == [9 / 4 * MODEL_BYTES] * 4


def redistribute():
    count_from_calls()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    x = DTensor.from_local(torch.ones(10, 100), mesh, [Shard(0)])
    with measure("all_gather"):
        full = x.redistribute(mesh, [Replicate()]).to_local() + 0
    with measure("all_reduce"):
        (x.sum().full_tensor() + 0).item()
    return full.shape


def test_dtensor():
    run = launch(redistribute, world_size=4)
    assert run.values[0] == (40, 100)
    assert figures(run["all_gather"].calls[0]) == [("all_gather", 4000, 12000, 12000)]
    assert figures(run["all_reduce"].calls[0]) == [("all_reduce", 4, 6, 6)]


def test_operators_that_are_no_calls():
    def step():
        x = torch.ones(1000)
        with measure("it"):
            functional.wait_tensor(x)
            x + 1

    assert launch(step, world_size=1)["it"].calls == [[]]


def test_messages_name_their_peer_in_the_world():
    def step():
        group = dist.new_group([1, 2])
        x = torch.ones(4)
        with measure("it"):
            if dist.get_rank() == 1:
                dist.send(x, 2)
                dist.isend(x, group=group, group_dst=1).wait()
            elif dist.get_rank() == 2:
                dist.recv(x, 1)
                dist.recv(x, group=group)

    calls = launch(step, world_size=3, device="cpu")["it"].calls
    assert [[(call.name, call.peer) for call in rank] for rank in calls] == [
        [],
        [("send", 2), ("send", 2)],
        [("recv", 1), ("recv", None)],
    ]


def test_the_messages_of_a_batch_are_calls():
    def step():
        group, x = dist.new_group([1, 2]), torch.ones(4)
        if dist.get_rank() == 0:
            return
        with measure("it"):
            peer = 1 if dist.get_rank() == 1 else 0  # in the group
            sends = dist.P2POp(dist.isend, x, group=group, group_peer=peer)
            receives = dist.P2POp(dist.irecv, torch.empty(4), group=group, group_peer=peer)
            for request in dist.batch_isend_irecv([sends, receives]):
                request.wait()

    calls = launch(step, world_size=3, device="cpu")["it"].calls
    assert [[call[:5] for call in of_rank] for of_rank in calls] == [
        [],
        [("send", 16, 16, 0, 2), ("recv", 16, 0, 16, 2)],
        [("send", 16, 16, 0, 1), ("recv", 16, 0, 16, 1)],
    ]
