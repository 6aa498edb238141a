# %% [markdown]
# # What this machine does with `torch.distributed`
#
# Made by `make report`. Every time was measured when this page was made, and depends on what else
# the machine was doing. Bytes were measured where their table says so, and repeat.

# %% tags=["parameters"]
world_sizes = [2, 4]
megabytes = [0.01, 0.1, 1.0, 10.0]
repeats = 15
students = 4

# %%
import datetime
import os
import platform
import statistics
import time

import torch
import torch.distributed as dist

from coursekit.class_load import available_bytes, median_seconds, notebook_bytes, seconds_at_once
from coursekit.report import cpu_name, straight_line
from pedagogy_lib import LaunchError, Table, launch, measure, plot_against
from pedagogy_lib.basics.units import format_seconds

ONE_NUMBER = 4e-6  # MB
if min(megabytes) < ONE_NUMBER:
    raise LaunchError("megabytes start at 0.000004, which is one number")
in_words = {n: f"{n} rank" + "s" * (n > 1) for n in world_sizes}
given = {"world_sizes": world_sizes, "megabytes": megabytes, "repeats": repeats,
         "students": students}
world_sizes, megabytes = sorted(set(world_sizes)), sorted(set(megabytes))

# %% [markdown]
# ## The machine

# %%
empty_runs = {n: launch(lambda: None, world_size=n) for n in world_sizes}
names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
facts = {
    "date": f"{datetime.datetime.now():%d %B %Y, %H:%M}",
    "system": f"{platform.system()} {platform.release()} on {platform.machine()}",
    "CPU": f"{cpu_name()}, {os.cpu_count()} cores",
    "GPUs": ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names)) or "none",
    "Python": platform.python_version(),
    "torch": torch.__version__,
    "parameters": " · ".join(f"{name}={value}" for name, value in given.items()),
}
places = {n: run.title().split(" · ")[1] for n, run in empty_runs.items()}  # Gloo on the CPU
facts |= {in_words[n]: place for n, place in places.items()}
on_cpu = [n for n, run in empty_runs.items() if run.device == "cpu"]
crowded = [str(n) for n in on_cpu if n > os.cpu_count()]
taking_turns = (
    f"More ranks than cores take turns: {' and '.join(crowded)} ranks on {os.cpu_count()} cores."
)
Table(["", "this machine"], facts.items())

# %% [markdown]
# ## Starting ranks
#
# From the call of `launch` to the values of all ranks: fresh processes, a process group, one
# call, and every process gone again. The median of some launches.


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
Table(
    ["ranks", "seconds"], [(n, f"{seconds:.3f}") for n, seconds in launches.items()],
    note=taking_turns if crowded else "",
)

# %% [markdown]
# ## Bytes of each collective
#
# Sent by the busiest rank, as a multiple of the tensor's size X, beside the bandwidth-optimal
# theory for n ranks. X is 8 MB here: every message also has a header, 48 bytes with Gloo, which
# shows beside small tensors only.


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
def in_tensors(run, name):
    """Bytes sent by the busiest rank, in units of the full tensor X."""
    return max(run[name].sent_bytes) / (2_000_000 // run.world_size * run.world_size * 4)


runs = {n: launch(collectives, 2_000_000 // n, world_size=n) for n in world_sizes}
labels = runs[world_sizes[0]].labels
theory = dict.fromkeys(labels, lambda n: (n - 1) / n) | {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "broadcast": lambda n: min(1, n - 1),
    "gather": lambda n: 1 / n if n > 1 else 0,
}
wire = {n: run[labels[0]].wire for n, run in runs.items()}
meaning = {
    "measured": "Measured: by the kernel's own counters. Where it is not the theory's, the backend "
    "uses another algorithm.",
    "counted": "Counted: worked out from the calls, by the theory's own formulas, where nothing "
    "counts the bytes; that the two agree shows nothing.",
}
Table(
    ["collective", *["sent", "theory"] * len(runs)],
    [
        [name, *(f"{x:.2f}" for n in runs for x in (in_tensors(runs[n], name), expected(n)))]
        for name, expected in theory.items()
    ],
    groups=[("", 1), *((f"{in_words[n]}, {places[n].split()[0]}, {wire[n]}", 2) for n in runs)],
    note=" ".join(text for how, text in meaning.items() if how in wire.values()),
)

# %% [markdown]
# ## Time of an all-reduce
#
# The median on rank 0, until its result is there.


# %%
def time_all_reduces(sizes, repeats):
    """An all-reduce of each size in MB, in blocks of their own; the first three do not count."""
    for size in sizes:
        x = torch.ones(int(size * 1e6 / 4))
        for _ in range(3):
            dist.all_reduce(x)
        for _ in range(repeats):
            dist.barrier()
            with measure(f"{size}", memory=False, wire=False):  # waits for a GPU at both ends
                dist.all_reduce(x)


def median_of_uses(block):
    return statistics.median(end - start for start, end in block.spans[0])


# %%
timed = {n: launch(time_all_reduces, megabytes, repeats, world_size=n) for n in world_sizes}
lines = {n: [median_of_uses(timed[n][f"{size}"]) for size in megabytes] for n in world_sizes}
plot_against(
    megabytes, {in_words[n]: seconds for n, seconds in lines.items()}, xlabel="tensor (MB)",
    ylabel="all-reduce (s)", logarithmic=True, title="Time of one all-reduce",
)

# %% [markdown]
# A straight line through these points, time = latency + bytes / bandwidth, fitted to their relative
# errors. The bus bandwidth is what each rank then sends in a second, if it sends the theory's
# 2(n-1)/n of the tensor.


# %%
def fitted(n):
    """A row on `n` ranks; without a line, where there is but one size, or noise hides it."""
    latency, bandwidth, error = straight_line([size * 1e6 for size in megabytes], lines[n])
    if latency is None:
        return n, "–", "–", "–", "–"
    bus = bandwidth * 2 * (n - 1) / n
    per_second = [f"{rate / 1e9:.2f} GB/s" for rate in (bandwidth, bus)]
    return n, format_seconds(latency), *per_second, f"{error:.0%}"


heads = ["ranks", "latency", "bandwidth", "bus bandwidth", "furthest point is off by"]
Table(heads, [fitted(n) for n in world_sizes], note=taking_turns if crowded else "")

# %% [markdown]
# ## A class on this machine
#
# Students who share it each have a notebook open, and start four ranks now and then. Memory is what
# this report's own notebook takes while it has four ranks on the CPU, without what processes share.
# For times, so many programs start four ranks each at the same moment, again and again: the median
# of the slowest program, after the first launch, which takes longer.

# %%
memory, available = notebook_bytes(), available_bytes()
alone, together = median_seconds(repeats, 4), seconds_at_once(students, repeats)
rows = [("a launch of 4 ranks, alone", format_seconds(alone)),
        (f"a launch, {students} at the same time", format_seconds(together))]
if memory and available:
    rows += [("a notebook with 4 ranks", f"{memory / 1e9:.2f} GB"),
             ("memory that is free now", f"{available / 1e9:.1f} GB"),
             ("so many notebooks with ranks fit into it", str(int(available // memory)))]
Table(["", "this machine"], rows, note=f"{os.cpu_count()} cores. Ranks that compute need a core "
      "each, or take turns. Files that are open in JupyterLab, and data, come on top.")
