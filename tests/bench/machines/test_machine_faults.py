"""Cables, halves and dead machines: by a plan, from another cell, and what is told of them."""

import time

import pytest
import torch
import torch.distributed as dist
from machines_here import needs_machines
from pyroute2 import IPRoute

from pedagogy_lib import (
    HangError,
    LaunchError,
    Machines,
    RankError,
    Stopped,
    begin,
    launch,
    measure,
    plot_timeline,
)

pytestmark = needs_machines
FAST = Machines(2, bytes_per_second=50e6)


def steps(count, numbers=250_000):
    for _ in range(count):
        with measure("step", memory=False):
            dist.all_reduce(torch.ones(numbers))
            time.sleep(0.02)
    return count


def test_a_cable_that_is_put_in_again_costs_time_and_no_data():
    def sums():
        found = []
        for step in range(6):
            x = torch.full((250_000,), float(step))
            dist.all_reduce(x)
            found.append(x.unique().tolist())
            time.sleep(0.05)
        return found

    plan = FAST.unplug(1, after_seconds=0.2).plug(1, after_seconds=0.5)
    run = launch(sums, world_size=4, machines=plan, timeout=20)
    assert run.values == [[[4.0 * step] for step in range(6)]] * 4
    assert [words for _, words in run.cards.events] == ["unplug 1", "plug 1"]
    at_out, at_back = (at for at, _ in run.cards.events)
    assert at_out >= 0.2 and at_back >= 0.5  # never earlier than planned
    assert at_out < at_back


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (FAST.unplug(1, at_block="step", nth=2), "Machine 1 is unplugged: ranks 2, 3 cannot hear"),
        (FAST.split([1], at_block="step", nth=2), "in two halves that cannot hear each other"),
    ],
)
def test_a_hang_names_the_machines_that_do_not_hear_each_other(plan, told):
    with pytest.raises(HangError, match=told) as caught:
        launch(steps, 4, world_size=4, machines=plan, timeout=2)
    assert set(caught.value.waits) == {0, 1, 2, 3}
    assert launch(steps, 1, world_size=4, machines=FAST).values == [1] * 4


@pytest.mark.parametrize(
    "plan", [FAST.unplug(0, after_seconds=0), FAST.split([0], after_seconds=0)]
)
def test_a_network_that_is_down_from_the_start(plan):
    began = time.perf_counter()
    with pytest.raises(LaunchError, match="cannot hear"):
        launch(steps, 2, world_size=4, machines=plan, timeout=2)
    assert time.perf_counter() - began < 15
    assert launch(steps, 1, world_size=4, machines=FAST).values == [1] * 4


@pytest.mark.parametrize(
    "plan",
    [
        FAST.kill(1, at_block="step", nth=2),
        FAST.kill(1, after_seconds=0.3),
        FAST.kill(1, after_seconds=0.3).revive(1, after_seconds=0.3),
    ],
)
def test_a_machine_that_is_killed_takes_its_ranks_along(plan):
    with pytest.raises(RankError, match="was killed, with all of machine 1") as caught:
        launch(steps, 200, world_size=4, machines=plan, timeout=20)
    assert caught.value.rank in (2, 3)
    assert launch(steps, 1, world_size=4, machines=FAST).values == [1] * 4


def test_a_machine_that_is_killed_before_its_ranks_come_is_told():
    with pytest.raises(RankError, match="cannot be on machine 1: it was killed"):
        launch(steps, 1, world_size=4, machines=FAST.kill(1, after_seconds=0))
    assert launch(steps, 1, world_size=4, machines=FAST).values == [1] * 4


def test_a_slow_card_slows_everybody_down():
    plan, slow = FAST.slow(1, 5e6, at_block="step", nth=3), 1.5e6 / 5e6 * 0.9
    fast = []
    for _ in range(3):
        run = launch(steps, 4, world_size=4, machines=plan, timeout=30)
        seconds = [end - start for start, end in run["step"].spans[0]]
        assert min(seconds[2:]) > slow
        fast.append(max(seconds[:2]))
    assert min(fast) < slow
    picture = plot_timeline(run, cards=True)
    assert "slow 1 to 5.00 MB/s" in picture.alt


def test_halves_can_be_joined_again():
    plan = FAST.split([1], after_seconds=0.2).join(after_seconds=0.4)
    run = launch(steps, 12, world_size=4, machines=plan, timeout=30)
    assert run.values == [12] * 4
    assert [words for _, words in run.cards.events] == ["cut off: 1", "joined"]


def begins_late():
    time.sleep(1.0)
    return steps


class Late:
    """Unpacked on a rank, it takes its time, as a long import does."""

    def __reduce__(self):
        return begins_late, ()


def test_seconds_count_from_the_moment_at_which_the_function_begins():
    plan = FAST.slow(1, 5e6, after_seconds=0.1)
    run = launch(lambda late: late(8, 10_000), Late(), world_size=2, machines=plan, timeout=20)
    ((at, _),) = run.cards.events
    assert at >= 1.0


def test_what_was_planned_and_did_not_happen_is_told(capsys):
    plan = FAST.unplug(1, at_block="stepp", nth=2).plug(1, after_seconds=50)
    launch(steps, 2, 1000, world_size=2, machines=plan.slow(0, 5e6, at_block="step"))
    told = capsys.readouterr().out
    assert "'unplug 1' did not happen: no block 'stepp' has begun 2 times on machine 1." in told
    assert "'plug 1' did not happen: the launch ended less than 50.00 s after it began." in told
    assert "slow" not in told


def test_a_rank_that_spoils_its_machine_spoils_one_launch():
    def take_the_card_down():
        with IPRoute() as ip:
            ip.link("set", index=ip.link_lookup(ifname="eth0")[0], state="down")
        steps(1)

    with pytest.raises(HangError):
        launch(take_the_card_down, world_size=2, machines=FAST, timeout=1)
    assert launch(steps, 1, world_size=2, machines=FAST).values == [1, 1]


# ---- While it runs ---


def test_a_launch_in_the_background_can_be_disturbed():
    running = begin(steps, 200, world_size=4, machines=FAST, timeout=30)
    assert "runs" in repr(running)
    time.sleep(0.3)
    running.unplug(1)
    time.sleep(0.2)
    running.plug(1)
    running.kill(0)
    with pytest.raises(RankError, match="with all of machine 0"):
        running.result()
    assert running.is_done and "ended" in repr(running)
    with pytest.raises(LaunchError, match="this launch has ended: see its result"):
        running.unplug(1)


def test_a_launch_in_the_background_gives_its_run():
    assert begin(steps, 2, world_size=2, device="cpu").result().values == [2, 2]
    running = begin(steps, 1, world_size=2, device="cpu")
    with pytest.raises(LaunchError, match="this launch has no machines of its own"):
        running.unplug(0)
    assert running.result().values == [1, 1]


def test_a_launch_in_the_background_can_be_stopped():
    running = begin(steps, 10_000, world_size=4, machines=FAST)
    with pytest.raises(LaunchError, match="another launch is still running"):
        time.sleep(0.2)
        launch(steps, 1, device="cpu")
    running.stop()
    with pytest.raises(Stopped, match="where each rank was"):
        running.result()
    assert launch(steps, 1, world_size=4, machines=FAST).values == [1] * 4


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: FAST.unplug(2, after_seconds=1),
            "no machine 2: the last of 2 machines is number 1",
        ),
        (lambda: FAST.unplug(-1, after_seconds=1), "there is no machine -1"),
        (lambda: FAST.unplug(1), "say when: after_seconds=0.5, or at_block="),
        (lambda: FAST.unplug(1, after_second=1), r"unplug\(\) has no 'after_second'; say when"),
        (lambda: FAST.unplug(1, after_seconds=1, at_block="step"), "say when"),
        (
            lambda: FAST.unplug(1, after_seconds="1"),
            "a number of seconds from 0 to 86,400, not '1'",
        ),
        (lambda: FAST.kill(1, at_block=3), "at_block is the label of a `measure` block, not 3"),
        (lambda: FAST.kill(1, at_block="step", nth=0), "nth is 1 for the first time, 2 for the"),
        (lambda: FAST.split([0, 1], after_seconds=1), "list of some of the 2 machines"),
        (lambda: FAST.split("1", after_seconds=1), "list of some of the 2 machines, not '1'"),
        (lambda: FAST.slow(1, 3, after_seconds=1), "from 1000 to 100,000,000,000, or None, not 3"),
        (lambda: begin(5), r"begin\(\) runs a function, but got 5"),
        (lambda: begin(steps, 1, machines=FAST, timeout=-1), "timeout is a positive number"),
    ],
)
def test_a_typo_gets_one_sentence(make, sentence):
    with pytest.raises(LaunchError, match=sentence):
        make()
