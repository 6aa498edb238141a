"""What a launch promises: worlds of any size, its Run, devices, seeds, and clear refusals."""

import os
import random
import time
from threading import Thread

import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
from helpers import launch_on_cpu, my_rank, wait_until
from selection import parametrize

from pedagogy_lib import LaunchError, RankError, launch, measure
from pedagogy_lib.ranks.settings import check_call, name_of
from pedagogy_lib.ranks.shared_gpus import send_through_the_cpu

KINDS = {
    "parameters",
    "gradients",
    "optimizer_state",
    "activations",
    "communication",
    "other",
    "total",
}


def step():
    x = torch.ones(1_000_000)
    with measure("all_reduce"):
        dist.all_reduce(x)
    return x[0].item()


@pytest.fixture(scope="module")
def run():
    return launch_on_cpu(step, world_size=4)


# Values and worlds


@parametrize("world_size", [1, 2, 3, 4, 8], quick=3)
def test_values_are_indexed_by_rank(world_size):
    def greet():
        total = torch.tensor(dist.get_rank())
        dist.all_reduce(total)
        return dist.get_rank(), dist.get_world_size(), total.item()

    run = launch(greet, world_size=world_size)
    total = sum(range(world_size))
    assert run.values == [(rank, world_size, total) for rank in range(world_size)]
    assert (run.world_size, run.rank) == (world_size, 0)


def test_four_ranks_by_default():
    assert launch(my_rank).values == [0, 1, 2, 3]


def private_bytes() -> int:
    """Memory that this process alone pays for."""
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file]
    return sum(1024 * int(line[1]) for line in lines if line[0].startswith("Private_"))


def test_sixty_four_ranks_are_quick_and_light():
    def sum_and_weigh():
        x = torch.ones(100)
        dist.all_reduce(x)
        return x[0].item(), private_bytes() if os.path.exists("/proc/self/smaps_rollup") else 0

    began = time.perf_counter()
    run = launch(sum_and_weigh, world_size=64)
    assert time.perf_counter() - began < 20
    assert {total for total, _ in run.values} == {64.0}
    assert max(weight for _, weight in run.values) < 15e6


# The Run


def test_run_says_where_it_ran(run):
    assert (run.backend, run.device, run.world_size) == ("gloo", "cpu", 4)
    assert 0 < run.seconds < 60
    assert run.labels == ["all_reduce"]


def test_block_has_one_figure_per_rank(run):
    block = run["all_reduce"]
    for bytes_of_rank in block.sent_bytes, block.received_bytes:
        assert bytes_of_rank == pytest.approx([6_000_000] * 4, rel=5e-3)
    assert len(block.seconds) == 4
    assert not [seconds for seconds in block.seconds if not seconds > 0]
    assert block.wire in ("measured", "counted")


def test_peak_bytes_are_given_by_kind(run):
    for peak in run["all_reduce"].peak_bytes:
        assert peak.keys() == KINDS
        assert peak["total"] >= 4_000_000


def test_unknown_label_names_the_known_ones(run):
    with pytest.raises(KeyError, match=r"no block 'reduce' was measured.*labels: 'all_reduce'"):
        run["reduce"]
    with pytest.raises(KeyError, match="labels: none"):
        launch(my_rank, world_size=1)["reduce"]


def test_run_shows_one_row_for_each_rank(run):
    title, *rows = repr(run).splitlines()
    assert title.startswith("4 ranks · Gloo on the CPU · ")
    assert [row.split()[:2] for row in rows[1:]] == [[str(rank), "4.0"] for rank in range(4)]
    page = run._repr_html_()
    assert page.count("<tr>") == len(rows) + 1  # the label has a row of its own
    assert "all_reduce" in page
    assert run["all_reduce"].wire in page


def test_long_tables_are_cut():
    run = launch(my_rank, world_size=20)
    for shown in repr(run), run._repr_html_():
        assert "… and 4 more ranks" in shown


# Devices


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU would be taken")
def test_without_gpu_ranks_run_on_the_cpu(device):
    run = launch(lambda: torch.ones(1).device.type, world_size=2, device=device)
    assert (run.backend, run.device, run.values) == ("gloo", "cpu", ["cpu", "cpu"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_gpu_is_refused():
    with pytest.raises(LaunchError, match=r'device="cuda" needs a GPU.*use device="auto"'):
        launch(my_rank, device="cuda")


def test_ranks_on_the_cpu_see_no_gpu():
    def report_devices():
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")  # so that this can fail without a GPU, too
        return torch.cuda.is_available(), torch.cuda.device_count(), hidden

    assert launch(report_devices, device="cpu").values == [(False, 0, "")] * 4


def test_messages_pass_the_cpu_where_gloo_cannot_take_them():
    """As ranks that share a GPU do; here between tensors that are on the CPU anyway."""

    def exchange():
        send_through_the_cpu("cpu")
        other, x, batched = 1 - dist.get_rank(), torch.zeros(3), torch.zeros(2, 2)
        if other:
            dist.send(torch.arange(3.0), other)
        else:
            assert dist.recv(x) == other
        sent = dist.isend(torch.ones(3) * other, other, tag=1)
        coming = dist.irecv(y := torch.zeros(4)[1:], other, tag=1)
        untouched = y.clone()
        coming.wait()
        sent.wait()
        y += 5
        coming.wait()  # again: what has been computed since stays
        operations = [
            dist.P2POp(dist.isend, torch.full((2, 2), float(other)), other),
            dist.P2POp(dist.irecv, batched, other),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
        return x, untouched, y, batched

    for rank, (x, untouched, y, batched) in enumerate(launch(exchange, world_size=2).values):
        assert x.tolist() == ([0, 1, 2] if rank else [0, 0, 0])
        assert untouched.tolist() == [0, 0, 0] and y.tolist() == [rank + 5] * 3
        assert batched.tolist() == [[rank] * 2] * 2


def test_unknown_device_is_refused():
    with pytest.raises(LaunchError, match='device is "auto", "cpu" or "cuda", not \'tpu\''):
        launch(my_rank, device="tpu")
    with pytest.raises(LaunchError, match=r"not 'gpu': did you mean \"cuda\"\?"):
        launch(my_rank, device="gpu")


# Seeds, and what ranks do not share


def draw():
    return torch.rand(1).item(), random.random(), np.random.rand()


def test_all_ranks_draw_alike_by_default():
    values = launch(draw, world_size=3).values
    assert len(set(values)) == 1
    assert values == launch(draw, world_size=3).values


def test_one_seed_for_each_rank():
    values = launch_on_cpu(draw, world_size=3, seed=[5, 6, 7]).values
    assert values[1] == launch_on_cpu(draw, world_size=1, seed=6).values[0]
    for draws in zip(*values):
        assert len(set(draws)) == 3


def test_as_many_seeds_as_ranks():
    with pytest.raises(LaunchError, match="3 seeds for 4 ranks: give one each, or one int"):
        launch(draw, world_size=4, seed=[1, 2, 3])


def test_a_rank_is_one_thread_of_torch():
    assert launch(torch.get_num_threads, world_size=2).values == [1, 1]


def test_ranks_speak_over_loopback_only():
    def addresses():
        dist.all_reduce(torch.ones(1))
        found = psutil.Process().net_connections("tcp")
        return [end.ip for one in found for end in (one.laddr, one.raddr) if end]

    for ips in launch(addresses, world_size=3).values:
        assert ips
        assert set(ips) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.deep
def test_one_may_leave_while_others_still_connect():
    """Where launches do not wait until all have connected, some of these fail."""
    for _ in range(20):
        launch_on_cpu(dist.destroy_process_group, world_size=8)


def test_launches_share_no_state():
    def leave_traces():
        seen = hasattr(torch, "left_behind"), os.environ.get("TRACE"), torch.get_default_dtype()
        torch.left_behind, os.environ["TRACE"] = True, "yes"
        torch.set_default_dtype(torch.float64)
        return seen, os.getpid()

    first, second = (launch(leave_traces, world_size=2) for _ in range(2))
    assert [seen for seen, _ in second.values] == [(False, None, torch.float32)] * 2
    assert len({pid for _, pid in first.values + second.values} | {os.getpid()}) == 5


# Refusals


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"world_size": 0}, "world_size is a whole number from 1 to 256, not 0"),
        ({"world_size": 257}, "from 1 to 256, not 257"),
        ({"world_size": "4"}, "from 1 to 256, not '4'"),
        ({"world_size": 2.0}, r"from 1 to 256, not 2\.0"),
        ({"world_size": True}, "from 1 to 256, not True"),
        ({"world_size": 10**5000}, "from 1 to 256, not <int that cannot be shown: ValueError>"),
        ({"timeout": 10**400}, r"timeout is a positive number of seconds, not 1000000\d+…"),
        ({"timeout": True}, "a positive number of seconds, not True"),
        ({"timeout": float("nan")}, "a positive number of seconds, not nan"),
        ({"timeout": -1}, "timeout is a positive number of seconds, not -1"),
        ({"timeout": 0}, "a positive number of seconds, not 0"),
        ({"timeout": "60"}, "a positive number of seconds, not '60'"),
    ],
)
def test_wrong_numbers_are_refused(options, sentence):
    with pytest.raises(LaunchError, match=sentence):
        launch(my_rank, **options)


def test_calling_the_function_too_early_is_explained():
    with pytest.raises(LaunchError, match=r"4\.0: write launch\(step\), not launch\(step\(\)\)"):
        launch(4.0)


def test_wrong_number_of_arguments_is_explained():
    with pytest.raises(LaunchError, match=r"my_rank\(2\) cannot be called: too many positional"):
        launch(my_rank, 2)
    with pytest.raises(LaunchError, match=r"my_rank\(2, 'x'\) cannot be called"):
        launch(my_rank, 2, "x")


def test_a_world_size_without_its_name_gets_the_call_that_was_meant():
    meant = r": for 4 ranks write launch\(my_rank, world_size=4\)$"
    with pytest.raises(LaunchError, match=meant):
        launch(my_rank, 4)
    for function, *args in ((my_rank, 4, 5), (my_rank, 4.0), (lambda x, y: x, 4)):
        with pytest.raises(LaunchError, match=r"have names, like world_size=4$"):
            launch(function, *args)


class NamelessCallable:
    """What it is called, and what it takes, is told to nobody."""

    @property
    def __name__(self):
        return 1 / 0

    __signature__ = __wrapped__ = __name__

    def __call__(self):
        return dist.get_rank()


def test_a_callable_that_tells_nothing_of_itself():
    check_call(NamelessCallable(), ())
    assert "NamelessCallable object" in name_of(NamelessCallable())


def test_functions_whose_call_would_run_nothing_are_refused():
    async def later():
        return 1

    def one_by_one():
        yield 1

    with pytest.raises(LaunchError, match="later is an async function: write it with `def` alone"):
        launch(later)
    with pytest.raises(LaunchError, match="one_by_one contains `yield`, so a call would not run"):
        launch(one_by_one)


def test_long_arguments_are_cut():
    for refused in (lambda: launch(my_rank, [0] * 100_000), lambda: launch([0] * 100_000)):
        with pytest.raises(LaunchError) as caught:
            refused()
        assert len(str(caught.value)) < 300
        assert "[0, 0, 0, 0, " in str(caught.value)


def test_numbers_of_numpy_are_taken():
    assert launch(my_rank, world_size=np.int64(2), timeout=np.float32(20)).values == [0, 1]


def test_a_deleted_folder_is_explained(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(LaunchError, match=r"the current folder has been deleted: .* os\.chdir"):
        launch(my_rank, world_size=2)
    monkeypatch.chdir(tmp_path)
    assert launch(my_rank, world_size=2).values == [0, 1]


def test_launch_inside_a_rank_is_refused():
    with pytest.raises(RankError, match="called inside a rank; call it outside") as caught:
        launch(lambda: launch(my_rank), world_size=2)
    assert isinstance(caught.value.exception, LaunchError)


def test_measure_outside_of_a_launch_is_refused():
    with (
        pytest.raises(LaunchError, match=r"measure\(\) works .* put the `with` into a function"),
        measure("nothing"),
    ):
        pass


def test_one_launch_at_a_time(tmp_path):
    def dawdle(folder):
        (folder / "begun").touch()
        while not (folder / "go on").exists():
            time.sleep(0.01)

    runs = []
    first = Thread(target=lambda: runs.append(launch(dawdle, tmp_path, world_size=1)))
    first.start()
    try:
        assert wait_until((tmp_path / "begun").exists, 20)
        with pytest.raises(LaunchError, match="another launch is still running in this process"):
            launch(my_rank)
    finally:
        (tmp_path / "go on").touch()
        first.join()
    assert runs[0].values == [None]
    assert launch(my_rank, world_size=2).values == [0, 1]


@pytest.mark.parametrize(
    "seed", [None, 1.5, "one", [1, 2.5], True, [1, False], b"ab", bytearray(2), {1, 2}]
)
def test_a_seed_that_is_no_whole_number_is_explained(seed):
    with pytest.raises(LaunchError, match="seed is a whole number, or one for each rank, not"):
        launch(time.sleep, 0, world_size=2, seed=seed)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, [0, 10**30]])
def test_a_seed_that_torch_cannot_take_is_explained(seed):
    with pytest.raises(LaunchError, match=r"a seed is a number from -2\*\*63 to 2\*\*64 - 1, not"):
        launch(my_rank, world_size=2, seed=seed)
    assert launch(draw, world_size=2, seed=[2**64 - 1, -(2**63)]).values[0][0] > 0


def test_an_endless_timeout_is_taken():
    assert launch(my_rank, world_size=1, timeout=float("inf")).values == [0]


@pytest.mark.parametrize("args", [(4,), (1, 2)])
def test_settings_without_their_names_are_explained(args):
    def no_arguments():
        pass

    with pytest.raises(LaunchError, match=r"launch's own settings have names, like world_size=4"):
        launch(no_arguments, *args)
