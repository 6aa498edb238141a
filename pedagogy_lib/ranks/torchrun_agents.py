"""torchrun from a notebook, as if on several machines."""

import functools
import logging
import os
import subprocess
import sys
import time

import torch.distributed as dist

from ..basics.errors import LaunchError, need
from ..basics.units import brief
from ..machines.amounts import is_count, is_positive
from ..machines.fault_triggers import ask_switch
from ..machines.namespaces import CARD, address_of, enter_machine
from ..machines.network import try_machines
from ..machines.spec import Machines
from ..machines.state import State
from . import fresh_stores
from .launcher import Launch, run_job
from .run import Run
from .settings import VARIABLES

PORT = 29_500  # torchrun's default; on separate machines no other program has it
RESTARTS = 3  # of all ranks, after one has failed, where machines may come and go
# For torchrun's rendezvous, in seconds: an agent that does not answer is soon given up, and once
# enough machines have joined, the wait for others is short.
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
# If agents share a store for all rounds, only the first round's agents know it (torch 2.13), so one
# that comes back would wait forever, and restarted ranks would find addresses of dead ones.
STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}  # two machines of this computer would use the same ones
LOOK_SECONDS = 0.05  # between two checks whether a machine is back
FAILED = "{} failed; its own message is printed above"


def run_torchrun(
    script, nnodes=1, nproc_per_node=2, timeout=60.0, machines=None, max_restarts=None
) -> Run:
    """Run `torchrun script` on `nnodes` machines, with one agent on each.

    Several nodes are machines with separate networks where this system allows them; elsewhere they
    only pretend to be, and meet over the loopback.

    script          path of a Python program, from the current folder
    nnodes          a number; or the fewest and the most, as in (1, 2), so that ranks continue, from
                    the start of the script, on the machines that are left, and take in one that
                    comes back. In the script, `machines_around().kill(1)` kills a machine at a step
                    of your choice
    nproc_per_node  the number of ranks on each machine
    timeout         seconds until the run counts as hung, from when all machines have met
    machines        `Machines(2, bytes_per_second=25e6)`, with that speed and their plan, such as
                    `Machines(2).kill(1, after_seconds=5).revive(1, after_seconds=8)`
    max_restarts    how often the agents restart all ranks, in new processes, after one has failed;
                    by default 0, and 3 where machines may come and go
    Returns         a `Run` whose indices are machines: `run.output[node]` is what the processes of
                    one printed. A script returns nothing, so `run.values` is all None
    Raises          `RankError` if the script fails, where `error.rank` is the machine; `HangError`
                    after `timeout`; `LaunchError` if there is no such script or something is
                    refused
    """
    if not os.path.exists(script):
        raise LaunchError(f"there is no program {script!r} to run from {os.getcwd()}")
    is_pair = isinstance(nnodes, tuple | list) and len(nnodes) == 2
    fewest, most = nnodes if is_pair else (nnodes, nnodes)
    counts = all(map(is_positive, (fewest, most, nproc_per_node)))
    need(counts and fewest <= most, "nnodes and nproc_per_node are at least 1")
    if max_restarts is None:
        max_restarts = RESTARTS if fewest < most else 0
    need(is_count(max_restarts), f"max_restarts is 0 or more, not {brief(max_restarts)}")
    need(machines is None or isinstance(machines, Machines),
         f"machines is Machines({most}), and not {brief(machines)}")  # fmt: skip
    need(machines is None or machines.count == most,
         f"{machines and machines.count} machines cannot be {most} nodes: write "
         f"Machines({most})")  # fmt: skip
    if machines is None and most > 1 and not try_machines():
        machines = Machines(most)
    elif machines is None and fewest < most:
        raise LaunchError(f"machines that come and go cannot be had here: {try_machines()}")
    job = AgentsLaunch(most, timeout, machines)
    own = [f"--nproc-per-node={nproc_per_node}", f"--max-restarts={max_restarts}"]
    return run_job(job, play_machine, (str(script), fewest, own, machines is not None))


class AgentsLaunch(Launch):
    """A launch whose ranks play machines: each runs an agent, on its machine if it has one.

    The rank itself stays outside, because it outlives its machine, like the program that starts
    agents on a cluster.
    """

    def __init__(self, count, timeout, machines):
        super().__init__("gloo", ["cpu"] * count, [0] * count, timeout, "machine", machines)

    def machine_of(self, rank) -> dict:
        return super().machine_of(rank) | {"network": None, "user": None, "planned": []}

    def state(self) -> State:
        return State([])


def share_port(node) -> tuple[int, dist.Store | None]:
    """Return a port, the same on all machines, and on machine 0 the store that listens on it.

    It listens only on the loopback. The store that torchrun makes would listen on every network of
    this computer, but torchrun uses a store that its process already has for that port.
    """
    ports, store = [0], None
    if node == 0:
        ports[0], store = fresh_stores.loopback_store()
    dist.broadcast_object_list(ports)
    return ports[0], store


AGENT = "torch.distributed.elastic.agent.server.api"


def is_no_farewell(record) -> bool:
    """Return whether a log record is no complaint of an agent whose peers have already gone."""
    return "exit barrier" not in record.getMessage()  # where agents wait for each other at the end


def play_machine(script, fewest, options, is_real):
    """Play machine number RANK: do what the command `torchrun` would do on it."""
    node, count = int(os.environ["RANK"]), dist.get_world_size()
    folder = os.environ["PEDAGOGY_FOLDER"]
    own = [*options, f"--log-dir={folder}/logs-{node}", script]
    if is_real:
        keep_agent(node, [*list_rendezvous_options(node, fewest, count), *own], folder)
        return
    if count == 1:
        forget_this_rank()
        fresh_stores.register()
        backend = f"--rdzv-backend={fresh_stores.NAME}"
        be_agent(["--nnodes=1", backend, "--rdzv-endpoint=127.0.0.1", *own])
        return
    port, _store = share_port(node)
    forget_this_rank()
    os.environ.update(NO_GPUS)
    static = [f"--nnodes={count}", f"--node-rank={node}", "--master-addr=127.0.0.1"]
    be_agent([*static, f"--master-port={port}", *own])


def forget_this_rank():
    """Remove the variables that mark this process as a rank, which torchrun must not see."""
    for name in ("PEDAGOGY_RANK", *VARIABLES):
        os.environ.pop(name, None)


def be_agent(settings):
    """Run `torchrun` in this process with these arguments; raise RuntimeError if a rank fails."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.getLogger(AGENT).addFilter(is_no_farewell)
    try:
        torchrun(settings)
    except ChildFailedError:
        raise RuntimeError(FAILED.format(settings[-1])) from None


def list_rendezvous_options(node, fewest, count) -> list[str]:
    """Return the options with which agents on separate machines meet, each time at machine 0."""
    return [f"--nnodes={fewest}:{count}", "--rdzv-backend=c10d", "--rdzv-id=1",
            f"--rdzv-endpoint={address_of(0)}:{PORT}", f"--local-addr={address_of(node)}",
            f"--rdzv-conf=is_host={int(node == 0)},{QUICK}"]  # fmt: skip


def keep_agent(node, settings, folder):
    """Run an agent on a machine; if the machine is killed and comes back, run another one."""
    forget_this_rank()
    door, over = os.path.join(folder, "switch"), os.path.join(folder, "over")
    while True:
        while (network := ask_switch(door, "paths")["networks"][node]) is None:
            if os.path.exists(over):
                return
            time.sleep(LOOK_SECONDS)
        paths = ask_switch(door, "paths")
        status = run_agent(settings, (node, len(paths["networks"]), network, paths["user"]))
        if status == 0:
            open(over, "w").close()  # agents end together, so no machine needs to come back
            return
        if ask_switch(door, "paths")["networks"][node] == network:
            raise RuntimeError(FAILED.format(settings[-1]))
        print("this machine has been killed", flush=True)


def run_agent(settings, way) -> int:
    """Run torchrun on a machine, entered by `enter_machine(*way)`; return its exit status."""
    command = [sys.executable, "-m", "torch.distributed.run", *settings]
    own = {"GLOO_SOCKET_IFNAME": CARD, "MACHINE": str(way[0])}  # ranks may change, this number not
    environ = os.environ | own | STORES | NO_GPUS
    enters = functools.partial(enter_machine, *way)
    with subprocess.Popen(command, env=environ, preexec_fn=enters) as agent:
        return agent.wait()
