# Built from chapters/ch07_tensor_parallel/labs/wide.py by `make build`.
"""How wide? Tensor parallelism over slow links, over machines with several cards; busy ranks.

torchrun --nproc-per-node 4 labs/wide.py
"""

import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from collectives import all_reduce_ring
from language_model import Block, Transformer, draw_batch, standard_library
from tensor_parallel import (
    AllReduce,
    Copy,
    parallelize,
    parallelize_attention,
    parallelize_mlp,
    split_cross_entropy,
)

from pedagogy_lib import SlowProducts, measure, throttle


class Sums:
    """enter and leave, with another way to add up than dist.all_reduce.

    add_up  add_up(x, group) adds up in x
    """

    def __init__(self, add_up):
        self.add_up = add_up

    def total(self, x, group=None):
        total = x.clone(memory_format=torch.contiguous_format)
        self.add_up(total, group)
        return total

    def enter(self, x, group=None):
        return Copy.apply(x, group, self.total)

    def leave(self, x, group=None):
        return AllReduce.apply(x, group, self.total)


# ---- Slow links -----------------------------------------------------------------------------

TOKENS = 4 * 64


def slowdown(compute_seconds, sums, sum_bytes, n, inside, between) -> float:
    """How many times as long a step takes over links `between` machines as `inside` of one.

    sums  all-reduces of a step, each a ring on n ranks; nothing overlaps
    A link is (bytes per second, seconds of latency).
    """
    fast, slow = (
        compute_seconds + sums * 2 * (n - 1) * (latency + sum_bytes / n / speed)
        for speed, latency in (inside, between)
    )
    return slow / fast


def block_on_links(size, links, rounds=3) -> list[float]:
    """On each rank: seconds of a block's step for each of some links; None: without its sums.

    Computing is emulated, links are throttled. The quickest round counts. A small block has more
    rounds: it is quick, so whatever else this computer does disturbs it more.
    """
    seconds, mode = [], SlowProducts(4e8)
    for link in links:
        sums = Sums(all_reduce_ring if link else lambda x, group: None)
        block = Block(size, 8)
        parallelize_attention(block.attention, None, sums.enter, sums.leave)
        parallelize_mlp(block.mlp, None, sums.enter, sums.leave)
        x, took = torch.randn(4, 64, size, requires_grad=True), []
        with throttle(*link) if link else nullcontext():
            for _ in range(rounds * max(1, 128 // size)):
                dist.barrier()
                began = time.perf_counter()
                with mode:
                    block(x).sum().backward()
                took.append(time.perf_counter() - began)
        seconds.append(min(took))
    return seconds


def slowest_rank(run) -> list[float]:
    return [max(of_ranks) for of_ranks in zip(*run.values)]


# ---- Several cards --------------------------------------------------------------------------


def all_reduce_channels(x, channels, group=None) -> None:
    """Add up in x by several rings at once, each with a part of x, as NCCL's channels do.

    On machines with several cards, Gloo gives one collective to each card in turn.
    """
    parts = x.view(-1).tensor_split(channels)
    for request in [dist.all_reduce(part, group=group, async_op=True) for part in parts]:
        request.wait()


def sum_in_channels(nbytes, channels, rounds=3) -> bool:
    """On each rank: an all-reduce in so many channels, a few times: "sum". Whether it is right."""
    n = dist.get_world_size()
    all_reduce_channels(
        torch.ones(4 * channels), 4 * channels
    )  # the first messages open the connections
    for _ in range(rounds):
        x = torch.full((nbytes // 4,), dist.get_rank() + 1.0)
        dist.barrier()
        with measure("sum", memory=False):
            all_reduce_channels(x, channels)
    return bool((x == n * (n + 1) / 2).all())


def step_in_channels(text, sizes, channels, rounds=6) -> None:
    """On each rank: steps of a small transformer whose sums go in so many channels: "step"."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    sums = Sums(lambda x, group: all_reduce_channels(x, channels, group))
    model = parallelize(Transformer(**sizes), None, sums.enter, sums.leave)
    inputs, targets = draw_batch(text, 8, 0)
    for number in range(rounds):
        model.zero_grad()
        dist.barrier()
        with measure("step", memory=False) if number else nullcontext():
            split_cross_entropy(model(inputs), targets).backward()


def quickest(block) -> float:
    """Seconds of the quickest round; in each, the slowest rank counts."""
    return min(max(end - start for start, end in spans) for spans in zip(*block.spans))


# ---- Busy ranks -----------------------------------------------------------------------------


def split_between(x, layers):
    """Two layers, one on each of two ranks."""
    if dist.get_rank() == 0:
        hidden = x @ layers[0]
        with measure("send", memory=False):
            dist.send(hidden, 1)
    else:
        hidden = torch.empty_like(x)
        dist.recv(hidden, 0)
        hidden @ layers[1]


def split_within(x, layers):
    """Two layers, half of each on each of two ranks."""
    rank = dist.get_rank()
    y = (x @ layers[0].chunk(2, dim=1)[rank]) @ layers[1].chunk(2, dim=0)[rank]
    with measure("all_reduce", memory=False):
        dist.all_reduce(y)


SPLITS = {"layer after layer": split_between, "cut within": split_within}


def both_splits(size, flops) -> None:
    """On each of two ranks: both SPLITS, with emulated products."""
    x, layers = torch.randn(size, size), torch.randn(2, size, size)
    dist.all_reduce(torch.ones(1))  # the first messages open the connections
    (dist.send if dist.get_rank() == 0 else dist.recv)(torch.ones(1), 1 - dist.get_rank())
    for name, split in SPLITS.items():
        dist.barrier()
        with SlowProducts(flops), measure(name, memory=False):
            split(x, layers)


def share_busy(run, name) -> float:
    """The share of the time of a block in which the ranks compute."""
    start = min(spans[0][0] for spans in run[name].spans)
    end = max(spans[0][1] for spans in run[name].spans)
    inside = sum(b - a for spans in run["product"].spans for a, b in spans if start <= a <= end)
    return inside / (end - start) / 2


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    run = launch(step_in_channels, text, {"width": 32, "heads": 4}, 2, world_size=2)
    if run.rank == 0:
        print(f"a step with its sums in two channels: {1e3 * quickest(run['step']):.0f} ms")


if __name__ == "__main__":
    main()
