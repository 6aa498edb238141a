# Built from chapters/ch04_failure_and_recovery/labs/torchft_engine.py by `make build`.
"""torchft, an engine that keeps PyTorch training alive, next to the course's keep_training.

python labs/torchft_engine.py     # python3 tools/setup.py torchft installs it
"""

import logging
import os
import signal
import tempfile
import time
import warnings
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path

import torch.distributed as dist
from folder_store import FolderStore
from gradient_accumulation import digits
from keep_training import Training, one_process
from torch.nn.utils import parameters_to_vector

# This process's own store and lighthouse, which have to live as long as its manager.
own_store = lighthouse = None

HAS_TORCHFT = find_spec("torchft") is not None
NO_TORCHFT = "python3 tools/setup.py torchft installs torchft (it needs no torchrun)"
SECONDS, JOIN_MS, HEARTBEAT_MS = 5.0, 500, 1000  # for collectives; for the lighthouse


def quietly():
    """Silence torchft before its import: it logs each heartbeat and each error that it survives."""
    os.environ.setdefault("RUST_LOG", "error")
    logging.getLogger("torchft").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="torchft|torch")
    BaseHTTPRequestHandler.log_message = lambda *_: None  # newcomers get their state by HTTP


def manager_for(training, lighthouse, replica):
    from torchft import Manager, ProcessGroupGloo

    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=SECONDS)),
        state_dict=training.state_dict,
        load_state_dict=training.load_state_dict,
        min_replica_size=2,
        use_async_quorum=False,  # a newcomer has its state before it computes
        timeout=timedelta(seconds=SECONDS),
        hostname="127.0.0.1",
        rank=0,  # within this replica, which is one process
        world_size=1,
        store_addr="127.0.0.1",
        store_port=own_store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"replica-{replica}-",
    )
    return manager


def share_lighthouse(place, is_here):
    """Return the lighthouse's address; it runs on one rank, in practice on another machine."""
    from torchft.coordination import LighthouseServer

    global lighthouse
    store = FolderStore(Path(place, "store"))
    if is_here:
        lighthouse = LighthouseServer(
            "127.0.0.1:0",
            min_replicas=2,
            join_timeout_ms=JOIN_MS,
            heartbeat_timeout_ms=HEARTBEAT_MS,
        )
        store.set("lighthouse", lighthouse.address())
    return store.get("lighthouse").decode()


def train(place, data, guilty, die_at, steps):
    """Train on this rank; return its steps, those discarded, and all weights in one row."""
    global own_store
    quietly()
    rank, is_new = int(os.environ["RANK"]), not dist.is_initialized()
    other = (guilty + 1) % int(os.environ["WORLD_SIZE"])
    lighthouse = share_lighthouse(place, rank == other)
    own_store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    training, discarded = Training(data), []
    manager = manager_for(training, lighthouse, rank)
    if not is_new:
        dist.barrier()
        time.sleep(0.3)  # until the lighthouse has heard of all ranks
    while training.steps < steps:
        manager.start_quorum()  # agrees on the members; a newcomer gets its state
        step, n = training.steps, manager.num_participants()
        sums = training.compute(manager.participating_rank(), n)
        if (rank, step, is_new) == (guilty, die_at, False):
            os.kill(os.getpid(), signal.SIGKILL)
        manager.allreduce(sums).wait()  # the mean over the members; errors are kept
        if manager.should_commit():  # a vote
            training.update(sums * n)
        else:
            discarded.append(step + 1)
        time.sleep(0.02)
    manager.shutdown(wait=False)
    return training.steps, discarded, parameters_to_vector(training.model.parameters()).detach()


def try_torchft(data, guilty=2, die_at=20, steps=60, n=4) -> list[str]:
    """Train on n replicas, one of which is killed and replaced; return lines that report on it."""
    from pedagogy_lib import launch

    with tempfile.TemporaryDirectory(prefix="torchft-") as place:
        run = launch(train, place, data, guilty, die_at, steps, world_size=n, device="cpu",
                     replacements=1)  # fmt: skip
    alone, lines = one_process(data, steps), list(map(str, run.lost))
    for rank, (taken, discarded, weights) in enumerate(run.values):
        gap = (weights - alone).abs().max().item()
        lines.append(f"rank {rank}: {taken} steps, discarded {discarded or 'none'}; weights differ "
                     f"from one process by {gap:.0e}")  # fmt: skip
    return lines


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if not HAS_TORCHFT or "RANK" in os.environ:
        print("torchft starts processes by itself, without torchrun" if HAS_TORCHFT else NO_TORCHFT)
        return
    for line in try_torchft(digits()):
        print(line)


if __name__ == "__main__":
    main()
