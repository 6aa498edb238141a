"""Ranks that die while the others go on, and processes that take their place."""

import contextlib
import gc
import os
import selectors
import signal
import time

import pytest
import torch
import torch.distributed as dist
from helpers import failure, launch_on_cpu
from machines_here import needs_machines

from pedagogy_lib import HangError, LaunchError, Machines, RankError, begin, measure
from pedagogy_lib.ranks import rank_listener
from pedagogy_lib.ranks.launcher import KILL_SECONDS


def place_of_rank():
    """Which rank this is, and how many processes have been in its place before."""
    return int(os.environ["RANK"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dies_before(times, who=(2,)):
    rank, before = place_of_rank()
    print(f"{before}: {dist.is_initialized()}")
    if rank in who and before < times:
        die()
    time.sleep(0.2)
    return before, torch.rand(1).item(), torch.get_num_threads()


def test_the_others_go_on():
    run = launch_on_cpu(dies_before, 1, replacements=0)
    assert [value and value[0] for value in run.values] == [0, 0, None, 0]
    (lost,) = run.lost
    assert (lost.rank, lost.what, lost.was_replaced) == (2, "was killed by SIGKILL", False)
    assert 0 < lost.seconds < run.seconds
    assert "rank 2 was killed by SIGKILL after " in repr(run)
    assert "2     lost" in repr(run)


def leave_after_a_failed_block():
    with contextlib.suppress(RuntimeError), measure("step", memory=False):
        if place_of_rank()[0] == 2:
            die()
        dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    gc.collect()
    time.sleep(2)  # as long as this process lives, only closed connections tell of it
    return True


def test_a_block_keeps_no_group_open():
    """Rank 0 has no connection with rank 2: it learns of it when its neighbours leave."""
    run = launch_on_cpu(leave_after_a_failed_block, replacements=0, timeout=10)
    assert run.values == [True, True, None, True]
    assert run.seconds < 8


def test_one_that_died_is_replaced_as_often_as_that_is_allowed():
    run = launch_on_cpu(dies_before, 5, replacements=3, seed=[1, 2, 3, 4])
    assert [value and value[0] for value in run.values] == [0, 0, None, 0]
    assert [lost.was_replaced for lost in run.lost] == [True, True, True, False]
    assert run.output[2] == "0: True\n1: False\n2: False\n3: False\n"  # one world, then none


class EndsFirst(selectors.DefaultSelector):
    """Of all that has come within some time, gives what the fork server says of ranks first."""

    def select(self, timeout=None):
        time.sleep(0.3)
        return sorted(
            super().select(timeout), key=lambda key: key[0].data.__name__ != "hear_server"
        )


def test_one_whose_end_is_heard_before_its_last_words_is_replaced(monkeypatch):
    monkeypatch.setattr(rank_listener, "LISTEN_SECONDS", 60.0)  # no look around saves it
    monkeypatch.setattr(
        rank_listener.RankListener, "open", lambda self: setattr(self, "selector", EndsFirst())
    )
    run = launch_on_cpu(dies_before, 2, replacements=2)
    assert [value[0] for value in run.values] == [0, 0, 2, 0]
    assert [lost.was_replaced for lost in run.lost] == [True, True]


def wait_for_rank_0():
    if place_of_rank()[0] == 0:
        time.sleep(60)
    dist.all_reduce(torch.ones(1))


def test_at_the_end_of_a_launch_nobody_is_replaced():
    launch_on_cpu(place_of_rank, world_size=1)  # so that the clock does not see the server start
    began = time.perf_counter()
    with pytest.raises(HangError):
        launch_on_cpu(wait_for_rank_0, replacements=20, timeout=1)
    assert time.perf_counter() - began < KILL_SECONDS  # all who are killed stay dead


def test_a_replacement_finds_what_a_rank_finds():
    run = launch_on_cpu(dies_before, 1, (0, 2), replacements=2, seed=[1, 2, 3, 4])
    alone = launch_on_cpu(dies_before, 0, replacements=2, seed=[1, 2, 3, 4])
    assert [value[0] for value in run.values] == [1, 0, 1, 0]
    assert [value[1:] for value in run.values] == [value[1:] for value in alone.values]
    assert alone.lost == []


def meet(folder):
    """Those that are left, and those that come, make a group of their own."""
    rank, before = place_of_rank()
    if rank == 1 and before == 0:
        die()
    if dist.is_initialized():
        dist.destroy_process_group()
    store = dist.FileStore(str(folder / "store"), -1)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=3)
    total = torch.tensor([10.0**rank])
    dist.all_reduce(total)
    return total.item()


def test_a_replacement_can_meet_the_others(tmp_path):
    assert launch_on_cpu(meet, tmp_path, world_size=3, replacements=1).values == [111.0] * 3


def add_up_until_it_fails(leaves):
    try:
        while True:
            dist.all_reduce(torch.ones(3))
            if dist.get_rank() == 1:
                die()
    except RuntimeError:
        if leaves:
            dist.destroy_process_group()
        return "lost a neighbour"


def test_who_leaves_the_group_tells_the_others():
    run = launch_on_cpu(add_up_until_it_fails, True, world_size=6, replacements=0)
    assert run.values == ["lost a neighbour", None, *["lost a neighbour"] * 4]


def test_a_hang_because_of_a_death_says_so():
    error = failure(add_up_until_it_fails, False, world_size=4, timeout=1, replacements=0)
    assert isinstance(error, HangError)
    assert "after 1 s, 2 of 3 ranks had returned" in str(error)
    assert "rank 3: " in str(error)
    assert "Rank 1 was killed by SIGKILL after " in error.advice
    assert "waits for ever" in error.advice


def die_all():
    die()


def raise_later():
    if dist.get_rank() == 1:
        die()
    time.sleep(0.2)
    raise ValueError("mine")


@pytest.mark.parametrize("step", [die_all, raise_later])
def test_it_fails_if_nobody_is_left_or_one_raises(step):
    error = failure(step, world_size=3, replacements=0)
    assert isinstance(error, RankError)
    assert "was killed by SIGKILL" in str(error)
    assert ("mine" in str(error)) == (step is raise_later)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "2", 10**6])
def test_a_number_that_makes_no_sense(wrong):
    with pytest.raises(LaunchError, match="replacements is None, or a whole number"):
        launch_on_cpu(place_of_rank, replacements=wrong)


def wait_for_it():
    _, before = place_of_rank()
    time.sleep(0.1 if before else 1.5)
    return before


@needs_machines
@pytest.mark.parametrize("comes_back", [True, False])
def test_ranks_come_back_with_their_machine(comes_back):
    machines = Machines(2).kill(1, after_seconds=0.1)
    if comes_back:
        machines = machines.revive(1, after_seconds=0.5)
    run = launch_on_cpu(wait_for_it, world_size=4, machines=machines, replacements=4)
    assert run.values == ([0, 0, 1, 1] if comes_back else [0, 0, None, None])
    assert {lost.rank for lost in run.lost} == {2, 3}
    assert {lost.what for lost in run.lost} == {"was killed with all of machine 1"}


def test_it_can_be_stopped_while_ranks_come_and_go():
    running = begin(dies_before, 10**6, (0, 1), world_size=3, replacements=1000, device="cpu")
    time.sleep(1.0)
    running.stop()
    assert running.is_done
