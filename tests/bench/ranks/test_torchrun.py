"""`launch` in programs that torchrun started: on one machine, on two agents, on two machines."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import needs
import pytest
from helpers import environment

from pedagogy_lib import LaunchError, RankError, run_torchrun
from pedagogy_lib.machines import other_users
from pedagogy_lib.ranks import torchrun_agents
from pedagogy_lib.ranks.settings import VARIABLES, is_torchrun_launched

PROGRAM = """
import json, os
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
Path(f"{os.environ['RANK']}.json").write_text(json.dumps({
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


FAILING_PROGRAM = """
from pedagogy_lib import launch

def step():
    raise ValueError("boom")

launch(step)
"""


@pytest.fixture
def torchrun(start, tmp_path):
    """Start one torchrun agent on a program."""

    def start_one(*options, prefix=(), **environ):
        (tmp_path / "program.py").write_text(PROGRAM)
        command = [*prefix, sys.executable, "-m", "torch.distributed.run", *options, "program.py"]
        return start(command, tmp_path, **environ)

    return start_one


def finish(*agents):
    for agent in agents:
        said, _ = agent.communicate(timeout=60)
        assert agent.returncode == 0, said


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


@pytest.mark.deep
def test_one_agent(torchrun, tmp_path):
    finish(torchrun("--standalone", "--nproc-per-node=2"))
    check_reports(tmp_path, 2)


@pytest.fixture
def write_program(tmp_path, monkeypatch):
    """Write a program into the current folder, for torchrun agents that the notebook starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    return (tmp_path / "program.py").write_text


@pytest.mark.deep
def test_two_agents_of_a_notebook(write_program, tmp_path, monkeypatch):
    write_program(PROGRAM + "print('rank', run.rank, 'is done')")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # of the agents
    run = run_torchrun("program.py", nnodes=2, nproc_per_node=1)
    assert not list(tmp_path.glob("torchelastic_*"))  # with their logs
    check_reports(tmp_path, 2)
    for node in range(2):
        assert f"rank {node} is done" in run.output[node]


LISTENERS = """
import os, psutil
import torch.distributed as dist

dist.init_process_group("gloo")
agent = psutil.Process().parent()
own = [one for process in (agent, psutil.Process()) for one in process.net_connections("tcp")]
print({one.laddr.ip for one in own if one.status == psutil.CONN_LISTEN})
dist.barrier()
dist.destroy_process_group()
"""


def test_agents_listen_on_the_loopback_alone_and_leave_no_folder(write_program, monkeypatch):
    monkeypatch.setattr(torchrun_agents, "try_machines", lambda: "no machines")
    monkeypatch.setenv(other_users.SWITCH, "0")  # no network of their own either
    write_program(LISTENERS)
    before = set(Path(tempfile.gettempdir()).glob("torchelastic_*"))
    run = run_torchrun("program.py", nnodes=2, nproc_per_node=1)
    assert [said.splitlines() for said in run.output] == [["{'127.0.0.1'}"]] * 2
    assert set(Path(tempfile.gettempdir()).glob("torchelastic_*")) == before


THREADS = """
import atexit
from pathlib import Path

def threads():
    tasks = Path("/proc/self/task").iterdir()
    names = [task.joinpath("comm").read_text().strip() for task in tasks]
    print("threads of Gloo:", [name for name in names if "gloo" in name])

atexit.register(threads)  # called after those that are registered later

from pedagogy_lib import launch

def step():
    import torch._dynamo  # as optimizers do

launch(step)
"""


def test_nothing_keeps_the_group_beyond_the_end(write_program):
    write_program(THREADS)
    assert run_torchrun("program.py", nproc_per_node=1).output == ["threads of Gloo: []\n"]


FAILS_ONCE = r"""
import os
import torch.distributed as dist

life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
if dist.get_rank() == 1 and life < 2:
    os.kill(os.getpid(), 9)
dist.barrier()
os.write(1, f"life {life} of rank {dist.get_rank()}\n".encode())  # in one piece
dist.destroy_process_group()
"""


@pytest.mark.deep
def test_ranks_are_started_again(write_program):
    write_program(FAILS_ONCE)
    (said,) = run_torchrun("program.py", nproc_per_node=2, max_restarts=2).output
    lives = sorted(line for line in said.splitlines() if line.startswith("life"))
    assert lives == ["life 2 of rank 0", "life 2 of rank 1"]


@pytest.mark.deep
def test_and_not_more_often_than_allowed(write_program):
    write_program(FAILS_ONCE)
    with pytest.raises(RankError, match=r"rank 1 was killed by SIGKILL") as caught:
        run_torchrun("program.py", nproc_per_node=2, max_restarts=1)
    assert caught.value.rank == 1
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(LaunchError, match="max_restarts is 0 or more, not"):
            run_torchrun("program.py", max_restarts=wrong)


def test_exception_goes_its_usual_way(write_program, capsys):
    write_program(FAILING_PROGRAM)
    with pytest.raises(RankError, match="rank 0 raised ValueError: boom") as caught:
        run_torchrun("program.py", nproc_per_node=1)
    assert 'raise ValueError("boom")' in caught.value.place.source()
    assert 'raise ValueError("boom")' in capsys.readouterr().out


def test_missing_program_is_named():
    with pytest.raises(LaunchError, match=r"there is no program 'nowhere\.py' to run"):
        run_torchrun("nowhere.py")


@pytest.mark.parametrize(("in_a_notebook", "joins"), [(True, False), (False, True)])
def test_variables_set_in_a_notebook_are_only_tried_out(in_a_notebook, joins, monkeypatch):
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if in_a_notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert is_torchrun_launched() is joins


def run_as_root(*words):
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def two_machines():
    """Two network namespaces with one cable between them: their names."""
    names = [f"course{side}{os.getpid()}" for side in "ab"]
    for name in needs.find_missing(["ip", "root"]):
        needs.skip(name)
    try:
        connect(names)
        yield names
    except subprocess.CalledProcessError as error:
        needs.skip("machines", error.stderr.decode().strip())
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def connect(names):
    """A cable between two namespaces: addresses 10.83.0.1 and 10.83.0.2."""
    for name in names:
        run_as_root("ip", "netns", "add", name)
    ends = [["name", "eth0", "netns", name] for name in names]
    run_as_root("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
    for number, name in enumerate(names, start=1):
        inside = ["ip", "-n", name]
        run_as_root(*inside, "address", "add", f"10.83.0.{number}/24", "dev", "eth0")
        run_as_root(*inside, "link", "set", "eth0", "up")
        run_as_root(*inside, "link", "set", "lo", "up")


@pytest.mark.deep
def test_two_machines(two_machines, torchrun, tmp_path):
    agents = []
    for node, name in enumerate(two_machines):
        options = ["--nnodes=2", "--nproc-per-node=1", f"--node-rank={node}"]
        options += ["--master-addr=10.83.0.1", "--master-port=29400"]
        inside = ["ip", "netns", "exec", name]
        agents.append(torchrun(*options, prefix=inside, GLOO_SOCKET_IFNAME="eth0"))
    finish(*agents)
    check_reports(tmp_path, 2)
