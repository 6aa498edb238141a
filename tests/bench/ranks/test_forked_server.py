"""A fork server that is forked from a process in which torch is loaded already."""

import sys

import pytest
from helpers import end, start

from pedagogy_lib.ranks.fork_server_client import ENVIRON

PROGRAM = """
import os
import torch.distributed as dist
from pedagogy_lib import launch
from pedagogy_lib.ranks import fork_server_client
from pedagogy_lib.ranks.warm_fork_server import WarmForkServer

def parent():
    return os.getppid()

server = WarmForkServer()
fork_server_client.take(server)
print(set(launch(parent, world_size=2).values) == {server.process.pid})
try:
    launch(lambda: 1 // 0, world_size=2)
except Exception as error:
    print("ZeroDivisionError" in str(error))
print(launch(dist.get_rank, world_size=2).values == [0, 1])
fork_server_client.close_server()
print(server.process.returncode is not None, os.path.exists(server.scratch))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux alone")
def test_its_ranks_come_from_it_and_it_ends_with_its_owner(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    program = start([sys.executable, "program.py"], tmp_path, **ENVIRON)
    try:
        said, _ = program.communicate(timeout=120)
    finally:
        end(program)
    assert said.split() == ["True"] * 4 + ["False"], said
