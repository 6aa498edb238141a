"""The parts that the check and the truth share."""

from functools import cache

import torch
import torch.distributed as dist

from pedagogy_lib.measuring.recorder import measure
from pedagogy_lib.ranks.launcher import launch

X = 2_400_000  # bytes, divisible by 2, 3 and 4

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def each_collective():
    """Run each collective on X bytes: the result of the all-gather, the input of the others."""
    x = torch.ones(X // 8, dtype=torch.float64)
    chunks = list(x.chunk(dist.get_world_size()))
    part = torch.ones_like(chunks[0])
    with measure("all_reduce"):
        dist.all_reduce(x)
    with measure("all_gather"):
        dist.all_gather(chunks, part)
    with measure("reduce_scatter"):
        dist.reduce_scatter(part, chunks)
    with measure("all_to_all"):
        dist.all_to_all_single(torch.empty_like(x), x)


@cache
def run_on(n):
    return launch(each_collective, world_size=n, device="cpu")


def read_sent_bytes(name, n, x) -> float:
    """Return the bytes that rank 0 sends: measured, but counted in reduce_scatter.

    Gloo's reduce_scatter sends more than it has to: see the chapter.
    """
    block = run_on(n)[name]
    sent = sum(call.sent_bytes for call in block.calls[0])
    return sent if name == "reduce_scatter" else block.sent_bytes[0]
