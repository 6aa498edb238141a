"""Bytes from rank to rank: whose they are, through which group, and what is drawn of them."""

import needs
import pytest
import torch
import torch.distributed as dist

from pedagogy_lib import LaunchError, Machines, launch, measure, plot_traffic
from pedagogy_lib.measuring import recorder
from pedagogy_lib.measuring.bytes_of_calls import Call
from pedagogy_lib.measuring.connections import Flow
from pedagogy_lib.measuring.uses import Use
from pedagogy_lib.ranks.run import Run

LARGE = 100_000  # float32
HEADERS = 2_000  # bytes at most, beside those of the tensors


def send_along_chain():
    """Rank 0 sends to 1, and 1 to 2, of three; nothing comes back."""
    rank, x = dist.get_rank(), torch.ones(LARGE)
    with measure("it"):
        if rank:
            dist.recv(x, rank - 1)
        if rank < 2:
            dist.send(x, rank + 1)
    dist.barrier()


def sum_along_both_axes(by_mesh):
    """Of a 2 × 2 mesh the rows sum one tensor, the columns one of half its size."""
    if by_mesh:
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("column", "row"))
        groups = {name: mesh[name].get_group() for name in ("column", "row")}
    else:
        groups = {}
        for name, lists in {"row": [[0, 1], [2, 3]], "column": [[0, 2], [1, 3]]}.items():
            for ranks in lists:
                group = dist.new_group(ranks, group_desc=name)
                if dist.get_rank() in ranks:
                    groups[name] = group
    with measure("it"):
        dist.all_reduce(torch.ones(LARGE), group=groups["row"])
        dist.all_reduce(torch.ones(LARGE // 2), group=groups["column"])


def run_counted(function, *args):
    """Run it as where the kernel counts nothing."""
    recorder._recorder.wire = "counted"
    return function(*args)


def large_ones(matrix) -> dict:
    """{(from, to): bytes, in tensors of LARGE numbers}."""
    return {
        (source, target): round(sent / (4 * LARGE), 2)
        for source, row in enumerate(matrix)
        for target, sent in enumerate(row)
        if sent > HEADERS
    }


@pytest.mark.parametrize("how", ["measured", "counted"])
def test_messages_that_go_one_way(how):
    work = (send_along_chain,) if how == "measured" else (run_counted, send_along_chain)
    run = launch(*work, world_size=3, device="cpu")
    assert run["it"].wire == how
    assert large_ones(run["it"].traffic()) == {(0, 1): 1, (1, 2): 1}
    assert run["it"].groups == ["world"]


@pytest.mark.parametrize("how", ["by hand", "DeviceMesh", "counted"])
def test_groups_are_told_by_their_names(how):
    work = (sum_along_both_axes, how == "DeviceMesh")
    if how == "counted":
        work = (run_counted, *work)
    run = launch(*work, world_size=4, device="cpu")
    block = run["it"]
    rows = {(0, 1), (1, 0), (2, 3), (3, 2)}
    columns = {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert large_ones(block.traffic("row")) == dict.fromkeys(rows, 1)
    assert large_ones(block.traffic("column")) == dict.fromkeys(columns, 0.5)
    assert large_ones(block.traffic()) == dict.fromkeys(rows, 1) | dict.fromkeys(columns, 0.5)
    assert set(block.groups) == {"row", "column"}
    assert [sum(row) for row in block.traffic()] == block.sent_bytes


@needs.mark("machines")
def test_machines_whose_loopbacks_have_the_same_address():
    run = launch(sum_along_both_axes, False, world_size=4, device="cpu", machines=Machines(2))
    assert [sum(row) for row in run["it"].traffic()] == run["it"].sent_bytes
    across = sum(run["it"].traffic("column")[0])
    assert 0 < across <= run["it"].cards[0].sent_bytes
    assert "from machine to machine" in plot_traffic(run, "it").alt


def test_ends_that_look_alike_on_two_machines():
    ends = [("127.0.0.1", 5), ("127.0.0.1", 6)]

    def uses(here, there, sent):
        return [Use("it", 0, 1, sent, 0, flows=[Flow(here, there, "world", sent)])]

    ranks = [uses(*ends, 7), uses(*ends[::-1], 8), uses(*ends, 9), uses(*ends[::-1], 10)]
    run = Run([None] * 4, ranks, [""] * 4, backend="gloo", devices=["cpu"] * 4, seconds=1,
              wire="measured", machines=Machines(2))  # fmt: skip
    assert run["it"].traffic() == [[0, 7, 0, 0], [8, 0, 0, 0], [0, 0, 0, 9], [0, 0, 10, 0]]


def test_calls_are_shared_out_evenly():
    calls = [Call("all_to_all", 90, 60, 60, None, "ep", (1, 2)), Call("barrier", 0, 0, 0)]
    uses = [[Use("it", 0, 1, 60, 60, calls)], [], []]
    run = Run([None] * 3, uses, [""] * 3, backend="nccl", devices=["cuda"] * 3, seconds=1,
              wire="counted")  # fmt: skip
    assert run["it"].traffic("ep") == [[0, 30, 30], [0, 0, 0], [0, 0, 0]]
    assert run["it"].groups == ["ep"]


def test_a_group_that_sends_nothing_is_told():
    run = launch(send_along_chain, world_size=3, device="cpu")
    with pytest.raises(LaunchError, match="no group 'tp' has sent anything; those that have"):
        run["it"].traffic("tp")


def test_the_picture_tells_who_sends_to_whom():
    run = launch(sum_along_both_axes, False, world_size=4, device="cpu")
    picture = plot_traffic(run, "it", ["row"], title="Rows")
    assert "in it: row 1.60 MB, from rank to rank in 4 pairs" in picture.alt
    assert picture.png()
