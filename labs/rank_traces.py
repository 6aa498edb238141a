# Built from chapters/ch03_data_parallel/labs/rank_traces.py by `make build`. Write your answers here.
"""Traces of PyTorch's profiler: the computing of each rank, and its exposed communication.

torchrun --nproc-per-node 2 labs/rank_traces.py        records three steps of each rank
python labs/rank_traces.py rank0.json.gz rank1.json    reads the traces of another run
"""

import gzip
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist
from collectives_measured import suppress_output
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, STEPS = 4, 256, 3
PRODUCTS = ("aten::mm", "aten::addmm")  # the computing of a trace without GPUs


class Trace(NamedTuple):
    """The spans of a rank, (start, end) in seconds, in the order of their starts."""

    communication: list[tuple[float, float]]
    computing: list[tuple[float, float]]


# ---- Recording ------------------------------------------------------------------------------


def record(samples, flops, slow_rank=None, slower=1.5) -> Trace:
    """Train three steps with DDP under the profiler, and return this rank's trace of them.

    flops      the speed at which products of matrices are emulated
    slow_rank  the rank whose computing takes `slower` times as long
    """
    from pedagogy_lib import SlowProducts

    layers = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
    ddp = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=4 * WIDTH**2 / 2**20)
    inputs, is_slow = torch.ones(samples, WIDTH), dist.get_rank() == slow_rank
    with SlowProducts(flops / slower if is_slow else flops, measured=False):
        train_steps(ddp, inputs)  # in the first one, DDP has other buckets
        dist.barrier()
        with suppress_output(), torch.profiler.profile() as profile:
            train_steps(ddp, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        with suppress_output():
            profile.export_chrome_trace(str(path))
        return read_trace(path)


def train_steps(ddp, inputs):
    for _ in range(STEPS):
        ddp(inputs).sum().backward()


def predict_computing(samples, flops) -> float:
    """Return the seconds that a rank computes in a step: three products a layer, but one."""
    return (3 * LAYERS - 1) * 2 * samples * WIDTH**2 / flops  # inputs need no gradient


# ---- Reading --------------------------------------------------------------------------------


def read_trace(path) -> Trace:
    """Read the trace that PyTorch's profiler has written into a file, `.json` or `.json.gz`.

    On GPUs, kernels communicate if "nccl" is in their name, and all other kernels compute.
    """
    data = Path(path).read_bytes()
    trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    begin = trace.get("baseTimeNanoseconds", 0) / 1e3  # microseconds, from which `ts` counts
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    kernels = [event for event in events if event.get("cat") == "kernel"]  # copies are neither
    if kernels:
        communication = [event for event in kernels if "nccl" in event["name"].lower()]
        computing = [event for event in kernels if "nccl" not in event["name"].lower()]
    else:
        communication = [event for event in events if event["name"].startswith("gloo:all_reduce")]
        computing = [event for event in events if event["name"] in PRODUCTS]
    return Trace(*(
        sorted(((begin + e["ts"]) / 1e6, (begin + e["ts"] + e["dur"]) / 1e6) for e in chosen)
        for chosen in (communication, computing)
    ))  # fmt: skip


def exposed_seconds(communication, computing):
    """Exercise 3.22. Return for how long a rank communicates and does not compute.

    communication  a list of (start, end) in seconds, in any order; spans may overlap
    computing      another such list
    """
    ...  # your code here


def covered_seconds(spans) -> float:
    """Return for how long at least one of the spans is under way."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def rows_of_traces(traces, steps=STEPS) -> list[list[str]]:
    """Return a row per rank: milliseconds a step of computing, communication, exposed ones."""
    rows = []
    for rank, trace in enumerate(traces):
        seconds = (covered_seconds(trace.computing), covered_seconds(trace.communication),
                   exposed_seconds(*trace))  # fmt: skip
        rows.append([rank, *(f"{1e3 * one / steps:.0f} ms" for one in seconds)])
    return rows


def align_clocks(traces) -> list[Trace]:
    """Return the traces on the clock of the first one, as machines have separate clocks.

    All ranks leave an all-reduce at nearly the same time: the median difference of the ends is
    taken as that of the clocks.
    """
    ends = [[end for _, end in trace.communication] for trace in traces]
    aligned = []
    for trace, own in zip(traces, ends):
        ahead = median([a - b for a, b in zip(own, ends[0])] or [0.0])
        aligned.append(Trace(*([(a - ahead, b - ahead) for a, b in spans] for spans in trace)))
    return aligned


def rows_of_arrivals(traces) -> list[list[str]]:
    """Return a row per collective: who came first and last, how far apart, and each one's time.

    Collectives are matched by their order, which is the same on all ranks of one group.
    """
    rows = []
    spans = (trace.communication for trace in align_clocks(traces))
    for number, calls in enumerate(zip(*spans), 1):
        starts = [start for start, _ in calls]
        first, last = (starts.index(pick(starts)) for pick in (min, max))
        skew = 1e3 * (starts[last] - starts[first])
        times = (f"{1e3 * (end - start):.0f}" for start, end in calls)
        rows.append([number, first, last, f"{skew:.0f} ms", " ".join(times)])
    return rows


# ---- The program ----------------------------------------------------------------------------


def show(traces, steps):
    for rank, computing, communication, exposed in rows_of_traces(traces, steps):
        print(f"trace {rank}: computes for {computing}, communicates for {communication}, "
              f"of which {exposed} are exposed")  # fmt: skip


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if sys.argv[1:]:
        show([read_trace(path) for path in sys.argv[1:]], steps=1)
        return
    run = launch(record, 64, 1e9, 1)
    if run.rank == 0:
        show(run.values, STEPS)


if __name__ == "__main__":
    main()
