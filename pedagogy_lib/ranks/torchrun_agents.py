"""torchrun from a notebook, as if on several machines."""

import logging
import os
import socket

import torch.distributed as dist

from ..basics.errors import LaunchError
from .launcher import Launch, run_job
from .run import Run
from .under_torchrun import VARIABLES


def run_torchrun(script, nnodes=1, nproc_per_node=2, timeout=60.0) -> Run:
    """Run `torchrun script` on `nnodes` pretended machines that meet over the loopback.

    Each machine is one rank of a launch, which does nothing but run a torchrun agent; so
    `run.output[node]` is what that machine's processes printed. Errors are those of `launch`.
    """
    if not os.path.exists(script):
        raise LaunchError(f"there is no program {script!r} to run from {os.getcwd()}")
    if min(nnodes, nproc_per_node) < 1:
        raise LaunchError("nnodes and nproc_per_node are at least 1")
    job = Launch("gloo", ["cpu"] * nnodes, [0] * nnodes, timeout, noun="machine")
    return run_job(job, play_machine, (str(script), nnodes, nproc_per_node))


def share_port(node) -> tuple[int, dist.Store | None]:
    """A port that is the same on all machines, and on machine 0 the store that listens there.

    It listens on the loopback alone. The store that torchrun makes would do so on every network of
    this computer; where its process has one for that port already, torchrun takes that.
    """
    ports, store = [0], None
    if node == 0:
        listener = socket.create_server(("127.0.0.1", 0))
        ports[0] = listener.getsockname()[1]
        options = {"wait_for_workers": False, "multi_tenant": True}
        fd = listener.detach()
        store = dist.TCPStore("127.0.0.1", ports[0], is_master=True, master_listen_fd=fd, **options)
    dist.broadcast_object_list(ports)
    return ports[0], store


AGENT = "torch.distributed.elastic.agent.server.api"


def is_no_farewell(record) -> bool:
    """At their end agents wait for each other; if the first is already gone, the rest complain."""
    return "exit barrier" not in record.getMessage()


def play_machine(script, nnodes, nproc_per_node):
    """Be machine number RANK: do what the command `torchrun` would do there."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.getLogger(AGENT).addFilter(is_no_farewell)
    node = os.environ["RANK"]
    port, _store = share_port(int(node))
    for name in ("PEDAGOGY_RANK", *VARIABLES):  # this rank's, and none of torchrun's business
        os.environ.pop(name, None)
    logs = os.path.join(os.environ["PEDAGOGY_FOLDER"], f"logs-{node}")  # it goes with the launch
    settings = [
        *(f"--nnodes={nnodes}", f"--nproc-per-node={nproc_per_node}", f"--node-rank={node}"),
        *("--master-addr=127.0.0.1", f"--master-port={port}", f"--log-dir={logs}", script),
    ]
    try:
        torchrun(settings)
    except ChildFailedError:
        raise RuntimeError(f"{script} failed; its own message is printed above") from None
