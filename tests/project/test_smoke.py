"""Whether an installation works: `make smoke` runs this, and one notebook with all its cells."""

import torch
import torch.distributed as dist
from exercise_names import EX
from helpers import my_rank

from coursekit.doctor import BAD, jupyter
from pedagogy_lib import HangError, check, launch, measure

SIZE = 1_000_000
LINE_OF_THE_HANG = "dist.all_reduce(torch.ones(1))"


def test_four_ranks_start_and_find_each_other():
    assert launch(my_rank, world_size=4).values == [0, 1, 2, 3]


def test_bytes_are_measured_or_counted():
    def step():
        x = torch.ones(SIZE)
        with measure("all_reduce"):
            dist.all_reduce(x)
        return x[0].item()

    run = launch(step, world_size=4, device="cpu")
    assert run.values == [4.0] * 4
    models_sent = [sent / (4 * SIZE) for sent in run["all_reduce"].sent_bytes]
    assert all(1.49 < sent < 1.52 for sent in models_sent), models_sent
    assert run["all_reduce"].peak_bytes[0]["total"] >= 4 * SIZE


def test_a_hang_names_its_line():
    def one_stays_away():
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(1))

    try:
        launch(one_stays_away, world_size=2, device="cpu", timeout=1)
    except HangError as error:
        assert LINE_OF_THE_HANG in str(error) and "Rank 1 is already back" in str(error)
    else:
        raise AssertionError("it did not hang")


def test_a_check_tells_right_from_wrong():
    def mean_over_ranks(number):
        x = torch.tensor(number, dtype=torch.float64)
        dist.all_reduce(x)
        return (x / dist.get_world_size()).item()

    def sum_over_ranks(number):
        return mean_over_ranks(number) * dist.get_world_size()

    assert check(EX.mean_over_ranks, mean_over_ranks).passed
    assert not check(EX.mean_over_ranks, sum_over_ranks).passed


def test_jupyter_is_there():
    assert jupyter()[0] != BAD
