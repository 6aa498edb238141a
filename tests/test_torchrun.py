"""`launch` in programs that torchrun started: on one machine, on two agents, on two machines."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
from helpers import environment, wait_until

PROGRAM = """
import json, os, sys
from pathlib import Path
import torch, torch.distributed as dist
from pedagogy_lib import launch, measure

def step(offset):
    x = torch.full((1_000_000,), float(offset))
    with measure("all_reduce"):
        dist.all_reduce(x)
    return dist.get_rank(), x[0].item(), torch.rand(1).item()

run = launch(step, 3, world_size=4)
again = launch(step, 4, seed=list(range(8)))
Path(sys.argv[1], f"{os.environ['RANK']}.json").write_text(json.dumps({
    "rank": run.rank,
    "world_size": run.world_size,
    "backend": run.backend,
    "values": run.values,
    "again": again.values,
    "sent_bytes": run["all_reduce"].sent_bytes,
    "received_bytes": run["all_reduce"].received_bytes,
    "seconds": run["all_reduce"].seconds,
    "wire": run["all_reduce"].wire,
    "peak": [peak["total"] for peak in run["all_reduce"].peak_bytes],
}))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_agent(folder, *options, prefix=(), **environ) -> subprocess.Popen:
    """One torchrun, on the program in `folder`."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "torch.distributed.run", *options, "program.py", "."],
        cwd=folder,
        env=environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(agents):
    for agent in agents:
        said, _ = agent.communicate(timeout=120)
        assert agent.returncode == 0, said


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def check_reports(folder, world_size):
    """Every rank has the whole Run, and the bytes of a 4 MB all-reduce."""
    reports = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]
    assert [report["rank"] for report in reports] == list(range(world_size))
    theory = 2 * (world_size - 1) / world_size * 4_000_000
    for report in reports:
        assert report | {"rank": 0} == reports[0]
        assert (report["world_size"], report["backend"]) == (world_size, "gloo")
        assert [value[:2] for value in report["values"]] == [
            [rank, 3.0 * world_size] for rank in range(world_size)
        ]
        assert len({value[2] for value in report["values"]}) == 1  # seeded alike
        assert len({value[2] for value in report["again"]}) == world_size
        assert report["wire"] in ("measured", "counted")
        for direction in "sent_bytes", "received_bytes":
            assert report[direction] == pytest.approx([theory] * world_size, rel=5e-3)
        assert min(report["peak"]) >= 4_000_000
        assert min(report["seconds"]) > 0


def test_one_agent(folder):
    finish([start_agent(folder, "--nproc-per-node=2", f"--master-port={free_port()}")])
    check_reports(folder, 2)


def test_two_agents(folder):
    port = free_port()
    options = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
    finish(
        start_agent(folder, *options, f"--master-port={port}", f"--node-rank={node}")
        for node in range(2)
    )
    check_reports(folder, 2)


def test_exception_ends_every_rank(tmp_path):
    (tmp_path / "program.py").write_text("""
import os, torch, torch.distributed as dist
from pedagogy_lib import launch

def step():
    if dist.get_rank() == 1:
        raise ValueError("boom")
    dist.barrier()

launch(step)
""")
    agent = start_agent(tmp_path, "--nproc-per-node=2", f"--master-port={free_port()}")
    said, _ = agent.communicate(timeout=120)
    assert agent.returncode != 0
    assert 'raise ValueError("boom")' in said


def as_root(*words):
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def two_machines():
    """Two network namespaces with one cable between them: their names."""
    names = [f"course{side}{os.getpid()}" for side in "ab"]
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root, and the program `ip`")
    try:
        try:
            connect(names)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def connect(names):
    for name in names:
        as_root("ip", "netns", "add", name)
    first, second = ({"cable": f"v{name[-10:]}", "name": name} for name in names)
    as_root(
        "ip", "link", "add", "eth0", "netns", names[0],
        "type", "veth", "peer", "name", "eth0", "netns", names[1],
    )  # fmt: skip
    for number, name in enumerate(names, start=1):
        inside = ["ip", "netns", "exec", name, "ip"]
        as_root(*inside, "address", "add", f"10.83.0.{number}/24", "dev", "eth0")
        as_root(*inside, "link", "set", "eth0", "up")
        as_root(*inside, "link", "set", "lo", "up")
