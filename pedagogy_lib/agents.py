"""torchrun from a notebook, as if on several machines."""

import logging
import os
import socket

from .errors import LaunchError
from .launcher import Launch, run_job
from .run import Run
from .torchrun import VARIABLES


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
    return run_job(job, play_machine, (str(script), nnodes, nproc_per_node, free_port()))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


AGENT = "torch.distributed.elastic.agent.server.api"


def is_no_farewell(record) -> bool:
    """At their end agents wait for each other; if the first is already gone, the rest complain."""
    return "exit barrier" not in record.getMessage()


def play_machine(script, nnodes, nproc_per_node, port):
    """Be machine number RANK: do what the command `torchrun` would do there."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.getLogger(AGENT).addFilter(is_no_farewell)
    node = os.environ["RANK"]
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
