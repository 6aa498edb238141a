"""`throttle`: how long messages take on a slow link, and that nothing else changes."""

import time

import pytest
import torch
import torch.distributed as dist
from helpers import holds_in_some_round, seconds_until_done

from pedagogy_lib import LaunchError, launch, measure, plot_timeline, throttle

SPEED = 5e6
MESSAGE = 1_000_000  # bytes: 0.2 s
SECONDS = MESSAGE / SPEED


def message():
    return torch.full((MESSAGE // 4,), dist.get_rank() + 1.0)


def time_step(step, world_size=2, latency=0.0):
    """Seconds until each rank has done `step`, on throttled links; and what it returns."""

    def throttled():
        with throttle(SPEED, latency), measure("it", memory=False):
            return step()

    run = launch(throttled, world_size=world_size, device="cpu")
    return seconds_until_done(run["it"]), run.values


def test_a_message_takes_its_time_on_both_sides():
    def step():
        x = message()
        dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0)
        return x[-1].item()

    def is_quick():
        (sending, receiving), values = time_step(step, latency=0.1)
        assert values == [1.0, 1.0]
        assert sending >= SECONDS
        assert receiving >= SECONDS + 0.1
        return sending < SECONDS + 0.1 and receiving < 2 * SECONDS + 0.1

    assert holds_in_some_round(is_quick)


@pytest.mark.parametrize("batch", [False, True])
def test_both_directions_at_once(batch):
    def step():
        x, received, peer = message(), torch.zeros(MESSAGE // 4), 1 - dist.get_rank()
        if batch:
            ops = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, received, peer)]
            requests = dist.batch_isend_irecv(ops)
        else:
            requests = [dist.isend(x, peer), dist.irecv(received, peer)]
        for request in requests:
            request.wait()
        return received[0].item()

    def is_quick():
        seconds, values = time_step(step)
        assert values == [2.0, 1.0]
        assert min(seconds) >= SECONDS
        return max(seconds) < 2 * SECONDS

    assert holds_in_some_round(is_quick)


def test_one_link_carries_one_message_after_another():
    def step():
        x = message()
        if dist.get_rank():
            dist.recv(x, 0)
        else:
            for request in [dist.isend(x, peer) for peer in (1, 2, 3)]:
                request.wait()

    def is_quick():
        (sending, *receiving), _ = time_step(step, world_size=4)
        assert sending >= 3 * SECONDS
        assert not [(k, s) for k, s in enumerate(receiving, 1) if not s >= k * SECONDS]
        return receiving[0] < 2 * SECONDS

    assert holds_in_some_round(is_quick)


@pytest.mark.parametrize("anybody", [False, True])
def test_the_receivers_link_is_shared_too(anybody):
    def step():
        if dist.get_rank():
            return dist.send(message(), 0)
        received = [message() for _ in range(3)]
        for peer, x in enumerate(received, 1):
            dist.recv(x, None if anybody else peer)
        return sorted(x[0].item() for x in received)

    def is_quick():
        (receiving, *sending), values = time_step(step, world_size=4)
        assert values[0] == [2.0, 3.0, 4.0]
        assert receiving >= 3 * SECONDS
        assert min(sending) >= SECONDS
        return max(sending) < 3 * SECONDS

    assert holds_in_some_round(is_quick)


def test_computing_meanwhile_costs_nothing():
    def step():
        x = message()
        request = dist.isend(x, 1) if dist.get_rank() == 0 else dist.irecv(x, 0)
        early = request.is_completed()
        time.sleep(SECONDS + 0.1)
        began = time.perf_counter()
        request.wait()
        return early, time.perf_counter() - began < SECONDS / 2

    assert holds_in_some_round(lambda: time_step(step)[1] == [(False, True)] * 2)


def test_ranks_of_a_group():
    def step():
        group = dist.new_group([1, 2])
        x = message()
        with throttle(SPEED), measure("it"):
            if dist.get_rank() == 1:
                dist.isend(x, group=group, group_dst=1).wait()
            elif dist.get_rank() == 2:
                dist.irecv(x, group=group, group_src=0).wait()
        return x[0].item()

    run = launch(step, world_size=3, device="cpu")
    assert run.values == [1.0, 2.0, 2.0]
    assert run["it"].spans[2][0][1] - run["it"].spans[1][0][0] >= SECONDS


def test_the_wire_carries_not_a_byte_more():
    def exchange():
        x, peer = message(), 1 - dist.get_rank()
        sending = dist.isend(x, peer)
        dist.recv(torch.empty_like(x), peer)
        sending.wait()

    def step():
        with measure("free"):
            exchange()
        with throttle(1e9), measure("throttled"):
            exchange()
        with measure("free again"):
            exchange()
        return dist.isend.__module__, dist.recv.__module__

    run = launch(step, device="cpu", world_size=2)
    assert run["free"].sent_bytes == run["throttled"].sent_bytes
    assert set(sum(run.values, ())) == {"torch.distributed.distributed_c10d"}
    links = [run[label].links for label in run.labels]
    assert links == ["", "links throttled to 1.00 GB/s", ""]


def test_an_error_inside_ends_it():
    def step():
        try:
            with throttle(SPEED):
                raise ZeroDivisionError
        except ZeroDivisionError:
            return dist.isend.__module__

    assert "links" not in launch(step, world_size=1).values[0]


def test_pictures_say_so():
    def step():
        with measure("outer"), throttle(2e6, 0.001):
            dist.barrier()

    picture = plot_timeline(launch(step, world_size=2, device="cpu"))
    label = picture.figure.axes[0].get_xlabel()
    assert label == "time (ms); links throttled to 2.00 MB/s + 1.0 ms"


def test_outside_of_a_launch():
    with pytest.raises(LaunchError, match="inside a function that launch"), throttle(1e6):
        pass


@pytest.mark.parametrize("numbers", [(0,), (-1,), (1e6, -0.1), (float("nan"),)])
def test_numbers_that_make_no_sense(numbers):
    def step():
        with throttle(*numbers):
            pass

    with pytest.raises(LaunchError, match="a positive number of bytes per second"):
        launch(step, world_size=1)


@pytest.mark.parametrize(
    ("peers", "theory"),
    [([1, 0, 3, 2], SECONDS), ([2, 3, 0, 1], 4 * SECONDS + 0.05)],
    ids=["inside", "between"],
)
def test_between_nodes_a_link_of_its_own(peers, theory):
    def step():
        x, received = message(), torch.zeros(MESSAGE // 4)
        with throttle(SPEED, node_size=2, between_nodes=(SPEED / 4, 0.05)), measure("it"):
            peer = peers[dist.get_rank()]
            requests = [dist.isend(x, peer), dist.irecv(received, peer)]
            for request in requests:
                request.wait()

    def is_quick():
        run = launch(step, world_size=4, device="cpu")
        assert run["it"].links == (
            "links throttled to 5.00 MB/s inside of a node, 1.25 MB/s + 50.0 ms between nodes"
        )
        seconds = seconds_until_done(run["it"])
        assert min(seconds) >= theory
        return max(seconds) < theory + SECONDS

    assert holds_in_some_round(is_quick)


@pytest.mark.parametrize(
    "settings",
    [
        {"node_size": 2},
        {"between_nodes": (1e6, 0)},
        {"node_size": 0, "between_nodes": (1e6, 0)},
        {"node_size": 2, "between_nodes": (0, 0)},
    ],
)
def test_nodes_that_make_no_sense(settings):
    def step():
        with throttle(SPEED, **settings):
            pass

    with pytest.raises(LaunchError, match=r"throttle\(\) "):
        launch(step, world_size=2, device="cpu")
