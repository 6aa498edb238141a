"""The DDP of solutions/labs/data_parallel.py, compared with torch's DistributedDataParallel."""

import copy
import functools
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from rows import Measurement, Row, mb, milliseconds
from torch.nn.parallel import DistributedDataParallel

from coursekit.labs import Lab
from pedagogy_lib import launch, measure

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
MODELS = {  # arguments of the lab's Transformer, samples of each rank, MiB of a bucket
    "2 layers of width 64": ((64, 2), 16, 0.1),
    "4 layers of width 256": ((256, 4), 8, 1),
    "4 layers of width 512": ((512, 4), 4, 25),
}
WORLD_SIZE = 2
ROUNDS = 25


def step_of(model, finish, lab, batch):
    """Return a function that takes one whole training step."""
    inputs, targets = batch
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        lab.mean_loss(model(inputs), targets).backward()
        finish()
        optimizer.step()

    return step


def take_turns(data_parallel, language_model, shape, samples, mebibytes):
    """Time the steps of each way on this rank, in seconds; one more step measures the bytes."""
    text = language_model.standard_library(100_000)
    torch.manual_seed(0)
    model = language_model.Transformer(*shape)
    ours = data_parallel.DDP(copy.deepcopy(model), int(mebibytes * 2**20))
    theirs = DistributedDataParallel(model, bucket_cap_mb=mebibytes)
    batch = language_model.draw_batch(text, samples, dist.get_rank())
    ways = {
        "ours": step_of(ours, ours.finish, language_model, batch),
        "theirs": step_of(theirs, lambda: None, language_model, batch),
    }
    times = {name: [] for name in ways}
    for turn in range(ROUNDS + 4):
        for name in sorted(ways, reverse=turn % 2):
            dist.barrier()
            began = time.perf_counter()
            ways[name]()
            if turn >= 4:
                times[name].append(time.perf_counter() - began)
    for name, step in ways.items():
        with measure(name):
            step()
    return times


def measurements() -> list[Measurement]:
    return [
        Measurement(f"transformer of {what}", functools.partial(compare_ddp, what, *sizes))
        for what, sizes in MODELS.items()
    ]


def compare_ddp(what, shape, samples, mebibytes):
    labs = [Lab(name, *[SOLVED / f"{name}.py"] * 2) for name in ("data_parallel", "language_model")]
    run = launch(take_turns, *labs, shape, samples, mebibytes, world_size=WORLD_SIZE, device="cpu")
    ours, theirs = (slowest(run.values, name) for name in ("ours", "theirs"))
    sent, their_sent = (max(run[name].sent_bytes) for name in ("ours", "theirs"))
    step = f"a step of DDP by hand, transformer of {what}, {WORLD_SIZE} ranks"
    yield Row(
        step, milliseconds(ours), milliseconds(theirs), f"{ours / theirs:.2f}x",
        "<= 1.15x", ours <= 1.15 * theirs, {"ours_seconds": ours, "peer_seconds": theirs},
    )  # fmt: skip
    yield Row(
        f"bytes sent by a rank in {step}",
        mb(sent), mb(their_sent), f"{sent / their_sent:.4f}x",
        "1 ± 0.005", abs(sent / their_sent - 1) <= 0.005,
        {"ours_bytes": sent, "peer_bytes": their_sent},
    )  # fmt: skip


def slowest(values, name) -> float:
    """Return the median over rounds of the slowest rank's seconds."""
    return median(max(of_round) for of_round in zip(*(rank[name] for rank in values)))
