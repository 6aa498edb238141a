"""Tensor parallelism of solutions/labs/tensor_parallel.py and of DTensor: a step and one block."""

import functools
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from rows import Measurement, Row, mb, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch, measure

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
PEERS = {  # {our plan: the plan that it is compared with}
    "tensor parallel": "DTensor",
    "overlapped": "DTensor",
    "sequence parallel": "DTensor, sequence parallel",
}
ENGINES = dict.fromkeys([*PEERS, *PEERS.values()])
WIDTHS, LAYERS, HEADS, SAMPLES = (64, 256), 2, 4, 16
WORLD_SIZES = (2, 4)
ROUNDS, WARM_UP = 11, 3


def take_turns(engines, width, batch):
    """Time each engine on this rank, in seconds: {name: (of steps, of one block alone)}.

    The bytes of both are measured afterwards.
    """
    makers = {name: make_step_and_block(engines, name, width, batch) for name in ENGINES}
    times = {name: ([], []) for name in makers}
    for turn in range(ROUNDS + WARM_UP):
        for name in sorted(makers, reverse=turn % 2):
            for run, found in zip(makers[name], times[name]):
                seconds = time_run(run)
                if turn >= WARM_UP:
                    found.append(seconds)
    for name, (step, block) in makers.items():
        with measure(f"{name}: step", memory=False):
            step()
        with measure(f"{name}: block", memory=False):
            block()
    return times


def time_run(run) -> float:
    dist.barrier()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def make_step_and_block(engines, name, width, batch):
    """Return two functions: a training step, and forward and backward of its first block alone."""
    model, loss_of, complete = engines.ready(
        name, engines.mesh_of_all(), width=width, layers=LAYERS, heads=HEADS
    )
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = batch
    context = inputs.shape[1] // (dist.get_world_size() if "sequence" in name else 1)
    x = torch.randn(SAMPLES, context, width, requires_grad=True)

    def step():
        with engines.split_loss(name):
            loss_of(model(inputs), targets).backward()
        if complete is not None:
            complete(model)
        optimizer.step()
        optimizer.zero_grad()

    def block():
        model.blocks[0](x).sum().backward()
        model.zero_grad()

    return step, block


def measurements() -> list[Measurement]:
    return [
        Measurement(f"width {width}, {n} ranks", functools.partial(compare_dtensor, n, width))
        for n in WORLD_SIZES
        for width in WIDTHS
    ]


def compare_dtensor(world_size, width):
    engines, language_model = (
        Lab(name, *[SOLVED / f"{name}.py"] * 2) for name in ("tensor_engines", "language_model")
    )
    batch = language_model.draw_batch(language_model.standard_library(100_000), SAMPLES, 0)
    run = launch(take_turns, engines, width, batch, world_size=world_size,
                 device="cpu", timeout=300)  # fmt: skip
    what = f"width {width}, {world_size} ranks"
    for pair in PEERS.items():
        yield from build_rows(run, *pair, 0, f"step of {LAYERS} layers, {what}")
        yield from build_rows(run, *pair, 1, f"one block, {what}")


def build_rows(run, ours, peer, part, what) -> list[Row]:
    our_seconds, their_seconds = (slowest(run.values, name, part) for name in (ours, peer))
    label = ("step", "block")[part]
    our_bytes, their_bytes = (max(run[f"{name}: {label}"].sent_bytes) for name in (ours, peer))
    return [
        Row(
            f"{ours} beside {peer}, {what}",
            milliseconds(our_seconds), milliseconds(their_seconds),
            f"{our_seconds / their_seconds:.2f}x", "<= 1.0x", our_seconds <= their_seconds,
            {"ours_seconds": our_seconds, "peer_seconds": their_seconds},
        ),
        Row(
            f"bytes sent by a rank, {ours} beside {peer}, {what}",
            mb(our_bytes), mb(their_bytes), f"{our_bytes / their_bytes:.2f}x",
            "<= 1.01x", our_bytes <= 1.01 * their_bytes,
            {"ours_bytes": our_bytes, "peer_bytes": their_bytes},
        ),
    ]  # fmt: skip


def slowest(values, name, part) -> float:
    """Return the median over rounds of the slowest rank's seconds."""
    return median(max(of_round) for of_round in zip(*(rank[name][part] for rank in values)))
