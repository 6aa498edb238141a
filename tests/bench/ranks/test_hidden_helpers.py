"""An error or a hang in a helper is told at the line of its caller, with the messages and peers."""

import pytest
import torch
import torch.distributed as dist

from pedagogy_lib import HangError, RankError, launch


def receive(x, peer):
    __tracebackhide__ = True
    request = dist.irecv(x, peer)
    request.wait()


def exchange(x, peer):
    __tracebackhide__ = True
    requests = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, x.clone(), peer)]
    )
    for request in requests:
        request.wait()


def fail(x):
    __tracebackhide__ = True
    raise ValueError("too long")


def test_an_error_in_a_helper_is_told_where_it_is_called():
    def work():
        fail(torch.zeros(3))

    with pytest.raises(RankError, match="too long") as caught:
        launch(work, world_size=1)
    assert caught.value.place.function == "work"
    assert caught.value.place.source() == "fail(torch.zeros(3))"


def test_a_hang_in_a_helper_is_told_where_it_is_called():
    def work():
        if dist.get_rank() == 0:
            receive(torch.zeros(3), 1)

    with pytest.raises(HangError) as caught:
        launch(work, world_size=2, timeout=2)
    place = caught.value.waits[0]
    assert (place.function, place.operation) == ("work", "wait")
    assert place.source() == "receive(torch.zeros(3), 1)"


def test_a_batch_tells_its_messages():
    def work():
        exchange(torch.zeros(3), dist.get_rank() - 1)

    with pytest.raises(HangError, match="Rank 0 names rank -1 as the other side") as caught:
        launch(work, world_size=2, timeout=2)
    assert caught.value.waits[0].function == "work"
    assert "isend(float32[3], dst=-1), irecv(float32[3], src=-1)" in caught.value.waits[0].call


def test_an_error_of_a_message_tells_the_message():
    def work():
        dist.send(torch.zeros(3), dist.get_rank())

    with pytest.raises(RankError, match=r"inside send\(float32\[3\], dst=0\)"):
        launch(work, world_size=1)


def test_where_all_are_helpers_the_innermost_is_told():
    with pytest.raises(RankError) as caught:
        launch(fail, torch.zeros(2), world_size=1)
    assert caught.value.place.function == "fail"
