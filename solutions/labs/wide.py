# Built from chapters/ch07_tensor_parallel/labs/wide.py by `make build`.
"""Limits of wide tensor parallelism: slow links, machines with several cards, busy ranks.

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
    """The functions enter and leave, with a sum other than dist.all_reduce.

    add_up  add_up(x, group) sums x over the ranks in place
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
    """Return how many times as long a step takes over links `between` machines as `inside` one.

    sums             all-reduces per step, each a ring on n ranks; nothing overlaps
    inside, between  links: (bytes per second, seconds of latency)
    """
    fast, slow = (
        compute_seconds + sums * 2 * (n - 1) * (latency + sum_bytes / n / speed)
        for speed, latency in (inside, between)
    )
    return slow / fast


def block_on_links(size, links, rounds=4) -> list[list[float]]:
    """Return a step's seconds on this rank in each round, for each link; None: without its sums.

    Computation is emulated, and links are throttled. The links take turns, and the first round does
    not count. A small block has more rounds, because it is so quick that other work on this
    computer disturbs it more.
    """
    took, mode = [[] for _ in links], SlowProducts(4e8)
    x = torch.randn(4, 64, size, requires_grad=True)
    for seconds, link in [*zip(took, links)] * (1 + rounds * max(1, 128 // size)):
        sums = Sums(all_reduce_ring if link else lambda x, group: None)
        block = Block(size, 8)
        parallelize_attention(block.attention, None, sums.enter, sums.leave)
        parallelize_mlp(block.mlp, None, sums.enter, sums.leave)
        with throttle(*link) if link else nullcontext():
            dist.barrier()
            began = time.perf_counter()
            with mode:
                block(x).sum().backward()
            seconds.append(time.perf_counter() - began)
    return [seconds[1:] for seconds in took]


def slowest_rank(run) -> list[list[float]]:
    """Return the seconds of the slowest rank in each round, for each link."""
    return [[max(seconds) for seconds in zip(*of_ranks)] for of_ranks in zip(*run.values)]


# ---- Several cards --------------------------------------------------------------------------


def all_reduce_channels(x, channels, group=None) -> None:
    """Sum x over ranks in place by several rings at once, one per part, as NCCL's channels do.

    On machines with several cards, Gloo gives the collectives to the cards in turn.
    """
    parts = x.view(-1).tensor_split(channels)
    for request in [dist.all_reduce(part, group=group, async_op=True) for part in parts]:
        request.wait()


def sum_in_channels(nbytes, channels, rounds=3) -> bool:
    """Measure "sum", an all-reduce in `channels`, a few times; return whether it is right."""
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


def race_channels(nbytes, counts, rounds=5) -> None:
    """Measure an all-reduce in each number of channels, in turns, as "1", "2" and so on.

    The first round opens connections.
    """
    x = torch.ones(nbytes // 4)
    for channels in [*counts] * (1 + rounds):
        dist.barrier()
        with measure(str(channels), memory=False):
            all_reduce_channels(x, channels)


def step_in_channels(text, sizes, channels, rounds=6) -> None:
    """Measure steps of a small transformer whose sums go through `channels`, as "step"."""
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


# ---- Busy ranks -----------------------------------------------------------------------------


def split_between(x, layers):
    """Run two layers, one on each of two ranks."""
    if dist.get_rank() == 0:
        hidden = x @ layers[0]
        with measure("send", memory=False):
            dist.send(hidden, 1)
    else:
        hidden = torch.empty_like(x)
        dist.recv(hidden, 0)
        hidden @ layers[1]


def split_within(x, layers):
    """Run two layers, half of each on each of two ranks."""
    rank = dist.get_rank()
    y = (x @ layers[0].chunk(2, dim=1)[rank]) @ layers[1].chunk(2, dim=0)[rank]
    with measure("all_reduce", memory=False):
        dist.all_reduce(y)


SPLITS = {"layer after layer": split_between, "cut within": split_within}


def both_splits(size, flops, rounds=1) -> None:
    """Run both SPLITS on each of two ranks in turns, with emulated products."""
    x, layers = torch.randn(size, size), torch.randn(2, size, size)
    dist.all_reduce(torch.ones(1))  # the first messages open the connections
    (dist.send if dist.get_rank() == 0 else dist.recv)(torch.ones(1), 1 - dist.get_rank())
    for name in [*SPLITS] * rounds:
        dist.barrier()
        with SlowProducts(flops), measure(name, memory=False):
            SPLITS[name](x, layers)


def shares_busy(run, name) -> list[float]:
    """Return the share of a block's time in which the ranks compute, in each round."""
    shares = []
    for (first, last), (start, end) in zip(*run[name].spans):
        start, end = min(first, start), max(last, end)
        inside = sum(b - a for spans in run["product"].spans for a, b in spans if start <= a <= end)
        shares.append(inside / (end - start) / 2)
    return shares


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    run = launch(step_in_channels, text, {"width": 32, "heads": 4}, 2, world_size=2)
    if run.rank == 0:
        print(f"a step with its sums in two channels: {1e3 * min(run['step'].rounds):.0f} ms")


if __name__ == "__main__":
    main()
