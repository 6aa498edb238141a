"""The fork server gives its memory back when nobody has launched anything for a while."""

import time

import pytest
from helpers import alive, my_rank, wait_until

from pedagogy_lib import launch
from pedagogy_lib.ranks import fork_server_client


@pytest.fixture
def idle_seconds(monkeypatch):
    """Sets after how many seconds it leaves, and how much earlier it counts as gone."""

    def set_them(idle, earlier=0.0):
        fork_server_client.close_server()
        monkeypatch.setattr(fork_server_client, "IDLE_SECONDS", idle)
        monkeypatch.setattr(fork_server_client, "EARLIER_SECONDS", earlier)

    yield set_them
    fork_server_client.close_server()


def test_an_idle_server_leaves_nothing_and_the_next_launch_works(idle_seconds):
    idle_seconds(0.5)
    launch(my_rank, world_size=1)
    server = fork_server_client._server
    assert wait_until(lambda: not alive([server.process.pid]), 20)
    assert wait_until(lambda: not server.scratch.exists())
    assert launch(my_rank, world_size=2).values == [0, 1]
    assert fork_server_client._server is not server


@pytest.mark.deep
def test_a_server_that_will_soon_leave_is_not_asked(idle_seconds):
    idle_seconds(1000.0, earlier=1000.0)
    launch(my_rank, world_size=1)
    first = fork_server_client._server.process.pid
    assert launch(my_rank, world_size=2).values == [0, 1]
    assert fork_server_client._server.process.pid != first
    assert not alive([first])


@pytest.mark.deep
def test_a_server_with_a_long_launch_is_not_idle(idle_seconds):
    def sleep_and_tell():
        time.sleep(4)  # longer than its imports and its patience
        return "awake"

    idle_seconds(0.2)
    assert launch(sleep_and_tell, world_size=1).values == ["awake"]


def test_a_server_stays_while_it_is_used(idle_seconds):
    idle_seconds(1000.0, earlier=60.0)
    launch(my_rank, world_size=1)
    first = fork_server_client._server
    launch(my_rank, world_size=1)
    assert fork_server_client._server is first
