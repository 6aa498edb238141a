"""A program that starts ranks in one way: it reads world sizes from stdin, one a line, and answers
each with the seconds from the call until every rank's value has arrived.

Usage: python peers.py launch|spawn|elastic|notebook_launcher|ipyparallel

Every way initialises a Gloo process group in each rank and returns the rank's own number. The
program has imported all that it needs before it reads the first line.
"""

import contextlib
import importlib.util
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time

os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}

NEEDS = {"notebook_launcher": "accelerate", "ipyparallel": "ipyparallel"}


def is_installed(way) -> bool:
    return importlib.util.find_spec(NEEDS.get(way, "torch")) is not None


def join(**rendezvous):
    import torch.distributed as dist

    dist.init_process_group("gloo", **rendezvous)
    return dist.get_rank()


def my_rank():
    import torch.distributed as dist

    return dist.get_rank()


# ---- This course ----------------------------------------------------------------------------


class Launch:
    def __init__(self):
        from pedagogy_lib import launch

        self.launch = launch
        launch(my_rank, world_size=2)  # then the fork server runs, as in a notebook

    def values(self, world_size):
        return self.launch(my_rank, world_size=world_size).values


# ---- torch.multiprocessing.spawn ------------------------------------------------------------


def run_spawned_rank(rank, world_size, store, results):
    results.put(join(init_method=f"file://{store}", rank=rank, world_size=world_size))


class Spawn:
    def __init__(self):
        import torch.distributed
        import torch.multiprocessing

        self.multiprocessing = torch.multiprocessing

    def values(self, world_size):
        results = multiprocessing.get_context("spawn").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            args = (world_size, f"{folder}/store", results)
            self.multiprocessing.spawn(run_spawned_rank, args, nprocs=world_size)
        return [results.get() for _ in range(world_size)]


# ---- torchrun's own launcher ----------------------------------------------------------------


class Elastic:
    """torchrun's launcher at its fastest: after a first launch, its fork server has torch."""

    def __init__(self):
        from torch.distributed.launcher import api

        self.api = api
        multiprocessing.set_forkserver_preload(["torch", "torch.distributed"])
        self.values(2)

    def values(self, world_size):
        config = self.api.LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=world_size,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            start_method="forkserver",
        )
        return list(self.api.elastic_launch(config, join)().values())


# ---- accelerate -----------------------------------------------------------------------------


def run_forked_rank(results):
    results.put(join())


class NotebookLauncher:
    """accelerate's launcher, which forks and therefore needs a new process per launch."""

    def __init__(self):
        from accelerate import notebook_launcher
        from torch.distributed.launcher import api  # noqa: F401 - what it imports when called

        self.notebook_launcher = notebook_launcher

    def values(self, world_size):
        results = multiprocessing.get_context("fork").SimpleQueue()
        self.notebook_launcher(
            run_forked_rank, (results,), num_processes=world_size, use_port=str(free_port())
        )
        return [results.get() for _ in range(world_size)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- ipyparallel ----------------------------------------------------------------------------


class IPyParallel:
    def __init__(self):
        import ipyparallel

        self.ipyparallel = ipyparallel

    def values(self, world_size):
        """Start engines and return their ranks; `warm_seconds` then times a second call to them."""
        cluster = self.ipyparallel.Cluster(n=world_size, log_level=40)
        engines = cluster.start_and_connect_sync()
        with tempfile.TemporaryDirectory() as folder:
            where = {"init_method": f"file://{folder}/store", "world_size": world_size}
            calls = [engines[r].apply_async(join, rank=r, **where) for r in range(world_size)]
            ranks = [call.get() for call in calls]
        self.engines, self.cluster = engines, cluster
        return ranks

    def warm_seconds(self):
        began = time.perf_counter()
        self.engines[:].apply_sync(my_rank)
        seconds = time.perf_counter() - began
        self.engines.close()
        self.cluster.stop_cluster_sync()
        return seconds


WAYS = {
    "launch": Launch,
    "spawn": Spawn,
    "elastic": Elastic,
    "notebook_launcher": NotebookLauncher,
    "ipyparallel": IPyParallel,
}


def answer(way, world_size) -> dict:
    began = time.perf_counter()
    values = way.values(world_size)
    seconds = time.perf_counter() - began
    assert sorted(values) == list(range(world_size)), values
    warm = way.warm_seconds() if isinstance(way, IPyParallel) else None
    return {"seconds": seconds, "warm_seconds": warm}


def main():
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the ways' own output is not an answer
    with contextlib.redirect_stdout(sys.stderr):
        way = WAYS[sys.argv[1]]()
        print("ready", file=replies)
        for line in sys.stdin:
            print(json.dumps(answer(way, int(line))), file=replies)


if __name__ == "__main__":
    main()
