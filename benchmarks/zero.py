"""ZeRO of solutions/labs/zero.py, compared with the engines that people use, stage by stage."""

import functools
import time
from pathlib import Path
from statistics import median

import torch.distributed as dist
from rows import Measurement, Row, mb, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch, measure

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
MODELS = {"4 layers of width 64": (64, 4), "4 layers of width 256": (256, 4)}  # of 16 samples
PEERS = {  # at the same stage
    "ours, stage 1": ("ZeroRedundancyOptimizer", "DeepSpeed, stage 1"),
    "ours, stage 2": ("FSDP2, kept gathered", "DeepSpeed, stage 2"),
    "ours, stage 3": ("FSDP2", "DeepSpeed, 3 released"),
}
WORLD_SIZE = 4
ROUNDS, WARM_UP = 15, 4


def take_turns(names, lab, language_model, shape):
    """Time the steps of each engine on this rank, in seconds; one more step measures the bytes."""
    text = language_model.standard_library(100_000)
    batch = language_model.draw_batch(text, 4, dist.get_rank())
    made = {name: make(lab.make_model(*shape)) for name, make in lab.all_engines() if name in names}
    times = {name: [] for name in made}
    for turn in range(ROUNDS + WARM_UP):
        for name in sorted(made, reverse=turn % 2):
            dist.barrier()
            began = time.perf_counter()
            step(made[name], batch, language_model)
            if turn >= WARM_UP:
                times[name].append(time.perf_counter() - began)
    for name, engine in made.items():
        with measure(name, memory=False):
            step(engine, batch, language_model)
    return times


def step(engine, batch, language_model):
    inputs, targets = batch
    engine.backward(language_model.mean_loss(engine.module(inputs), targets))
    engine.step()


def measurements() -> list[Measurement]:
    return [
        Measurement(f"transformer of {what}", functools.partial(compare_engines, what, shape))
        for what, shape in MODELS.items()
    ]


def compare_engines(what, shape):
    lab, language_model = (
        Lab(name, *[SOLVED / f"{name}.py"] * 2) for name in ("sharding_engines", "language_model")
    )
    names = [name for ours, peers in PEERS.items() for name in (ours, *peers)]
    run = launch(take_turns, names, lab, language_model, shape, world_size=WORLD_SIZE,
                 device="cpu", timeout=300)  # fmt: skip
    for ours, peers in PEERS.items():
        for peer in peers:
            if peer in run.values[0]:
                yield from build_rows(run, ours, peer, what)
            else:
                yield Row(f"{peer}: it is not installed")


def build_rows(run, ours, peer, what) -> list[Row]:
    our_seconds, their_seconds = (slowest(run.values, name) for name in (ours, peer))
    our_bytes, their_bytes = (max(run[name].sent_bytes) for name in (ours, peer))
    pair = f"{ours} beside {peer}, transformer of {what}, {WORLD_SIZE} ranks"
    return [
        Row(
            pair,
            milliseconds(our_seconds), milliseconds(their_seconds),
            f"{our_seconds / their_seconds:.2f}x", "<= 1.0x", our_seconds <= their_seconds,
            {"ours_seconds": our_seconds, "peer_seconds": their_seconds},
        ),
        Row(
            f"bytes sent by a rank in a step, {pair}",
            mb(our_bytes), mb(their_bytes), f"{our_bytes / their_bytes:.2f}x",
            "<= 1.01x", our_bytes <= 1.01 * their_bytes,
            {"ours_bytes": our_bytes, "peer_bytes": their_bytes},
        ),
    ]  # fmt: skip


def slowest(values, name) -> float:
    """Return the median over rounds of the slowest rank's seconds."""
    return median(max(of_round) for of_round in zip(*(rank[name] for rank in values)))
