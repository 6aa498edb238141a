"""The ring of solutions/labs/collectives.py, compared with Gloo's own collectives."""

import functools
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from rows import Measurement, Row, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs" / "collectives.py"
MEGABYTES = (1, 8, 32)
WORLD_SIZES = (2, 4)
ROUNDS = 15


def seconds_of(work) -> float:
    dist.barrier()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def take_turns(lab, nbytes) -> dict[str, list[float]]:
    """Time each way on this rank, round by round, in seconds."""
    x = torch.zeros(nbytes // 4)
    chunks = list(x.chunk(dist.get_world_size()))
    own = chunks[dist.get_rank()]
    ways = {
        "all_reduce": (lambda: lab.all_reduce_ring(x), lambda: dist.all_reduce(x)),
        "reduce_scatter": (
            lambda: lab.reduce_scatter_ring(chunks),
            lambda: dist.reduce_scatter(own, chunks),
        ),
    }
    times = {(name, who): [] for name in ways for who in (0, 1)}
    for turn in range(ROUNDS + 2):
        for name, pair in ways.items():
            for who in (turn % 2, 1 - turn % 2):
                seconds = seconds_of(pair[who])
                if turn >= 2:
                    times[name, who].append(seconds)
    return times


def limit(name, megabytes):
    if name == "all_reduce":
        return "<= 1.5x", lambda ratio: ratio <= 1.5
    return ("< 1x", lambda ratio: ratio < 1) if megabytes >= 8 else ("", None)


def measurements() -> list[Measurement]:
    return [
        Measurement(f"{megabytes} MB, {n} ranks", functools.partial(compare_gloo, n, megabytes))
        for n in WORLD_SIZES
        for megabytes in MEGABYTES
    ]


def compare_gloo(n, megabytes):
    lab = Lab("collectives", SOLVED, SOLVED)
    run = launch(take_turns, lab, megabytes * 1_000_000, world_size=n, device="cpu")
    for name in ("all_reduce", "reduce_scatter"):
        ours, theirs = (slowest(run.values, name, who) for who in (0, 1))
        aim, reached = limit(name, megabytes)
        yield Row(
            f"ring {name} of {megabytes} MB, {n} ranks, beside Gloo's",
            milliseconds(ours), milliseconds(theirs), f"{ours / theirs:.2f}x",
            aim, bool(reached and reached(ours / theirs)),
            {"ours_seconds": ours, "peer_seconds": theirs},
        )  # fmt: skip


def slowest(values, name, who) -> float:
    """Return the median over rounds of the slowest rank's seconds."""
    return median(max(of_round) for of_round in zip(*(rank[name, who] for rank in values)))
