# %% [markdown]
# # What this machine does with `torch.distributed`
#
# Every figure below was measured when this report was made. Byte counts are exact and repeat;
# times depend on what else the machine was doing.

# %% tags=["parameters"]
world_sizes = [2, 4]
megabytes = [0.01, 0.1, 1.0, 10.0]
repeats = 5

# %%
import os
import platform
import statistics
import time

import torch
import torch.distributed as dist

from pedagogy_lib import Table, launch, measure, plot_against

# %% [markdown]
# ## The machine

# %%
run = launch(lambda: None, world_size=max(world_sizes))
facts = {
    "system": f"{platform.system()} {platform.release()} on {platform.machine()}",
    "cores": os.cpu_count(),
    "GPUs": torch.cuda.device_count(),
    "Python": platform.python_version(),
    "torch": torch.__version__,
    "backend": f"{run.backend} on {run.device}",
}
Table(["", "this machine"], facts.items())

# %% [markdown]
# ## Starting ranks
#
# From the call of `launch` to the values of all ranks: fresh processes, a process group, one
# call, and every process gone again.


# %%
def seconds_to_launch(world_size):
    """The median of some launches of a function that does nothing."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        launch(lambda: None, world_size=world_size)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


launches = {world_size: seconds_to_launch(world_size) for world_size in world_sizes}
Table(["ranks", "seconds"], [(n, f"{seconds:.3f}") for n, seconds in launches.items()])

# %% [markdown]
# ## Bytes of each collective
#
# Sent by the busiest rank, as a multiple of the tensor's size X, beside the bandwidth-optimal
# theory for n ranks. Where the two differ, the backend uses another algorithm.


# %%
def collectives(count):
    """Every collective once, each in a block of its own; the full tensor is `count * n` floats."""
    rank, n = dist.get_rank(), dist.get_world_size()
    full, part = torch.ones(count * n), torch.ones(count)
    parts = list(torch.ones(n, count))
    calls = {
        "all_reduce": lambda: dist.all_reduce(full),
        "all_gather": lambda: dist.all_gather(parts, part),
        "reduce_scatter": lambda: dist.reduce_scatter(part, parts),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(full), full),
        "broadcast": lambda: dist.broadcast(full, src=0),
        "scatter": lambda: dist.scatter(part, parts if rank == 0 else None, src=0),
        "gather": lambda: dist.gather(part, parts if rank == 0 else None, dst=0),
    }
    for name, call in calls.items():
        with measure(name):
            call()


# %%
count = int(max(megabytes) * 1e6 / 4) // max(world_sizes)
runs = {n: launch(collectives, count, world_size=n) for n in world_sizes}


def in_tensors(run, name):
    """Bytes sent by the busiest rank, in units of the full tensor X."""
    return max(run[name].sent_bytes) / (count * run.world_size * 4)


theory = dict.fromkeys(runs[world_sizes[0]].labels, lambda n: (n - 1) / n) | {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "broadcast": lambda n: 1,
    "gather": lambda n: 1 / n,
}
rows = [
    (name, n, f"{in_tensors(runs[n], name):.3f}", f"{expected(n):.3f}")
    for name, expected in theory.items()
    for n in world_sizes
]
Table(["collective", "ranks", f"sent ({run.backend})", "theory"], rows)

# %% [markdown]
# ## Time of an all-reduce
#
# Small tensors cost latency, large ones bandwidth.


# %%
def time_all_reduces(sizes, repeats):
    """The median time of an all-reduce for each size in MB; a first one is not counted."""
    medians = []
    for size in sizes:
        x = torch.ones(max(1, int(size * 1e6 / 4)))
        times = []
        for _ in range(repeats + 1):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(x)
            times.append(time.perf_counter() - began)
        medians.append(statistics.median(times[1:]))
    return medians


# %%
lines = {
    f"{n} ranks": launch(time_all_reduces, megabytes, repeats, world_size=n).values[0]
    for n in world_sizes
}
plot_against(
    megabytes, lines, xlabel="tensor (MB)", ylabel="all-reduce (s)", logarithmic=True,
    title="Time of one all-reduce",
)
