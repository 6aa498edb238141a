"""`launch` in a program that torchrun started, where the world already exists."""

import atexit
import gc
import os
import time

import cloudpickle
import torch
import torch.distributed as dist

# Its functions have the group that exists at import as a default argument. If an optimizer imported
# it later, they would keep the group and Gloo's threads alive beyond the group's end.
import torch.distributed.nn.functional

from .packing import pack_whole
from .run import Run
from .settings import choose_device, seeds_of


def leave_group():
    """Destroy the process group at the program's end, or Gloo's threads may abort the exit."""
    gc.collect()  # a DistributedDataParallel that is no longer used still holds the group
    if dist.is_initialized():
        dist.destroy_process_group()


def run(fn, args, device, seed) -> Run:
    """Run `fn(*args)` in this process, one of torchrun's ranks; return all ranks' `Run`.

    An exception is raised as usual: torchrun reports it and ends the other ranks.
    """
    from .rank import Work, enter_group, seed_everything

    local_rank = int(os.environ["LOCAL_RANK"])
    backend, devices = choose_device(device, int(os.environ["LOCAL_WORLD_SIZE"]))
    if not dist.is_initialized():
        enter_group(backend, torch.device(devices[local_rank]), init_method="env://")
        atexit.register(leave_group)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    seed_everything(seeds_of(seed, world_size, exactly=False)[rank])
    dist.barrier()  # machines have no common clock, so ranks begin to count at about the same time
    began = time.perf_counter()
    port = int(os.environ["MASTER_PORT"])
    work = Work(torch.device(devices[local_rank]), began, ignore_ports=(port,))
    mine = work.report(work.run(fn, args), pack_whole)
    everyone = [None] * world_size
    dist.all_gather_object(everyone, (mine, devices[local_rank]))
    return Run(
        values=[cloudpickle.loads(*report.take_value()) for report, _ in everyone],
        uses=[report.uses for report, _ in everyone],
        output=[""] * world_size,
        backend=backend,
        devices=[device for _, device in everyone],
        seconds=time.perf_counter() - began,
        wire=mine.wire,
        rank=rank,
    )
