"""Programs on machines: torchrun's agents, one of which is killed and comes back; terminals."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, environment
from machines_here import have_gone, needs_machines, networks_of
from selection import parametrize

from pedagogy_lib import LaunchError, Machines, run_torchrun
from pedagogy_lib.__main__ import main

pytestmark = [needs_machines, pytest.mark.slow]
PROGRAM = """
import os, sys, time, torch, torch.distributed as dist

def say(word):  # in one piece: ranks write into the same pipe
    who = f"{dist.get_rank()} of {dist.get_world_size()} {os.environ['GLOO_SOCKET_IFNAME']}"
    os.write(1, f"{word} {who}\\n".encode())

dist.init_process_group("gloo")
say("begin")
for step in range(STEPS):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.1)
say("end")
"""


@pytest.mark.deep
def test_agents_meet_over_the_network(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace("STEPS", "1"))
    run = run_torchrun(tmp_path / "program.py", nnodes=2, nproc_per_node=2)
    for node, said in enumerate(run.output):
        ranks = {int(rank) for rank in re.findall(r"end (\d) of 4 eth0", said)}
        assert ranks == {2 * node, 2 * node + 1}, said
    assert run.machines.count == 2
    assert min(run.cards.sent[-1]) > 1000  # the agents' words, and the ranks'


@pytest.mark.deep
def test_an_agent_that_is_killed_rejoins(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.replace("STEPS", "250"))
    plan = Machines(2).kill(1, after_seconds=15).revive(1, after_seconds=18)
    run = run_torchrun(tmp_path / "program.py", (1, 2), 1, timeout=150, machines=plan)
    assert "this machine has been killed" in run.output[1]
    assert "end 0 of 2" in run.output[0] and "end 1 of 2" in run.output[1]
    assert run.output[0].count("begin") >= 2


@pytest.mark.deep
def test_a_program_that_fails_there_is_told(tmp_path):
    (tmp_path / "program.py").write_text("raise SystemExit(3)")
    with pytest.raises(LaunchError, match=r"program\.py failed; its own message is printed above"):
        run_torchrun(tmp_path / "program.py", nnodes=2, nproc_per_node=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nnodes": 0}, "nnodes and nproc_per_node are at least 1"),
        ({"nnodes": (2, 1)}, "nnodes and nproc_per_node are at least 1"),
        ({"nnodes": "2"}, "nnodes and nproc_per_node are at least 1"),
        ({"nnodes": 2, "machines": 2}, r"machines is Machines\(2\), and not 2"),
        (
            {"nnodes": 2, "machines": Machines(3)},
            r"3 machines cannot be 2 nodes: write Machines\(2\)",
        ),
    ],
)
def test_nodes_that_cannot_be_get_one_sentence(options, sentence):
    with pytest.raises(LaunchError, match=sentence):
        run_torchrun(ROOT / "labs" / "start_here.py", **options)


# ---- A terminal ---

BY_NUMBER = (
    "torchrun --nnodes $MACHINES --node-rank $MACHINE --nproc-per-node 1 --master-addr machine0 "
    "--master-port 29500 labs/start_here.py"
)
BY_MEETING = (
    "torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint machine0:29500 "
    "labs/start_here.py"
)


@parametrize("torchrun, ranks", [(BY_NUMBER, 1), (BY_MEETING, 2)], quick=1)
def test_torchrun_is_typed_as_on_a_cluster(torchrun, ranks, tmp_path):
    command = [sys.executable, "-m", "pedagogy_lib", "machines", "2", "--mbit", "200"]
    environ = environment(TMPDIR=str(tmp_path))  # torchrun keeps a folder of logs
    done = subprocess.run([*command, "--run", torchrun], cwd=ROOT, env=environ,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    lines = re.findall(r"\[machine (\d)\] GROUP_RANK (\d) LOCAL_RANK (\d)", done.stdout)
    first, second = sorted({(machine, group) for machine, group, _ in lines})
    assert {first[0], second[0]} == {first[1], second[1]} == {"0", "1"}  # who meets first is 0
    assert sorted(local for _, _, local in lines) == sorted(["0", "1"][:ranks] * 2)
    assert "cannot be retrieved" not in done.stdout
    assert done.returncode == 0


def test_machines_have_names():
    command = [sys.executable, "-m", "pedagogy_lib", "machines", "2"]
    done = subprocess.run([*command, "--run", "hostname; getent hosts machine1"], cwd=ROOT,
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    lines = sorted(" ".join(line.split()) for line in done.stdout.splitlines())
    assert [line for line in lines if "10." not in line] == [
        "[machine 0] machine0", "[machine 1] machine1"]  # fmt: skip
    assert {"[machine 0] 10.77.0.2 machine1", "[machine 1] 10.77.0.2 machine1"} <= set(lines)
    assert "machine" not in socket.gethostname() and "10.77" not in Path("/etc/hosts").read_text()


def test_a_shell_on_each_machine(tmp_path):
    command = [sys.executable, "-m", "pedagogy_lib", "machines"]
    options = {"cwd": ROOT, "env": environment(SHELL="/bin/sh"), "text": True}
    piped = {"stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "2", "--mbit", "100"], **options, **piped, stdin=-1) as first:
        assert "2 machines, cards of 12.50 MB/s: 10.77.0.1, 10.77.0.2" in first.stdout.readline()
        typed = "echo I am $MACHINE of $MACHINES\n"
        other = subprocess.run([*command, "--on", "1"], input=typed, **options, **piped, timeout=60)
        assert "This shell is on machine 1, 10.77.0.2." in other.stdout
        assert "I am 1 of 2" in other.stdout
        own = networks_of(first.pid)
        told, _ = first.communicate("echo here $ADDRESS\n", timeout=60)
    assert "here 10.77.0.1" in told
    assert len(own) == 3 and have_gone(own)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say how many machines: python -m pedagogy_lib machines 2"),
        (["0"], "Machines() takes a number of machines, or the ranks of each, not 0"),
        (["2", "--mbit", "-1"], "bytes_per_second is a number from 1000 to"),
        (["--on", "1"], "there are no machines: first, in another terminal"),
    ],
)
def test_what_cannot_be_had_gets_one_sentence(arguments, sentence, capsys):
    assert main(["machines", *arguments]) == 2
    assert sentence in capsys.readouterr().err
