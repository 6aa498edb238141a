"""The overhead of `measure`: blocks of about 20 ms with and without it, one after the other.

Times are CPU times of all threads of a rank, so that neither other programs nor waiting for them
counts, and a block of 20 ms is as much work on a busy machine as on a quiet one.
"""

import contextlib
import functools
import os
import random
import time
from dataclasses import dataclass
from statistics import mean, median

import torch
import torch.distributed as dist
from overhead_statistics import compute_overhead
from rows import Measurement, Row, microseconds, milliseconds
from torch import nn

from pedagogy_lib import launch, measure

BLOCK_SECONDS = 0.020
MAX_PERCENT = 3.0  # that memory=False may add
MAX_OF_PEERS = 0.5  # the share of what MemTracker adds that memory=True may add
# Rounds run in new processes until the median is known well enough or it takes too long.
ROUNDS, FEWEST, MOST = 60, 2, 10  # in a launch; launches
MARGIN, MOST_SECONDS = 0.3, 120.0  # percent


def seconds_of(work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def run_measured(work, memory):
    with measure("it", memory=memory):
        work()


@dataclass
class Block:
    work: callable
    externals: tuple = ()  # the objects that MemTracker has to know


def amount_for_20_ms(make) -> int:
    """Return how much of a kind of work lasts about 20 ms, the same on every rank."""
    amount = 8
    for _ in range(4):
        work = make(amount).work
        work()
        seconds = torch.tensor(median(seconds_of(work) for _ in range(5)))
        dist.broadcast(seconds, 0)
        amount = max(1, round(amount * BLOCK_SECONDS / seconds.item()))
    return amount


def all_reduce(amount) -> Block:
    x = torch.ones(amount * 10_000)
    return Block(lambda: dist.all_reduce(x))


def matrix_products(amount) -> Block:
    a = torch.randn(512, 512)

    def work():
        for _ in range(amount):
            a @ a

    return Block(work)


def training_step(amount) -> Block:
    """Make the training step of every first lesson: 784 pixels, 1,024 hidden units, 10 digits."""
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(4 * amount, 784), torch.randint(10, (4 * amount,))

    def work():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return Block(work, (model, optimizer))


KINDS = {
    "an all-reduce, 2 ranks": (all_reduce, 2),
    "products of 512 x 512 matrices": (matrix_products, 1),
    "a training step (784-1024-10, SGD)": (training_step, 1),
}


@contextlib.contextmanager
def torchs_memory_tracker(externals):
    """Run torch's private MemTracker, which counts bytes by kind, as `measure` does."""
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    tracker.track_external(*externals)
    with tracker:
        yield


@contextlib.contextmanager
def torchs_profiler(externals):
    """Run torch's profiler in C++, which records allocations but not what they are for."""
    with torch.profiler.profile(profile_memory=True):
        yield


def take_turns(make, peer, seed) -> list[list[float]]:
    """Time the block alone and each variant, in seconds, round by round and in random order.

    The variants are the block alone once more, with memory=False, with memory=True and with a peer.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the profiler prints a greeting at every start
    block = make(amount_for_20_ms(make))
    work = block.work

    def run_with_peer():
        with peer(block.externals):
            work()

    by_us = [functools.partial(run_measured, work, memory) for memory in (False, True)]
    variants = [work, work, *by_us, run_with_peer]
    return [time_variants(variants, random.Random(seed + i)) for i in range(-3, ROUNDS)][3:]


def time_variants(variants, chance) -> list[float]:
    """Time each variant, in seconds. The random order is the same on all ranks."""
    seconds = [0.0] * len(variants)
    for index in chance.sample(range(len(variants)), len(variants)):
        dist.barrier()
        seconds[index] = seconds_of(variants[index])
    return seconds


def rounds_of(make, world_size, peer, most=MOST):
    """Yield the progress, and return the rounds with the mean of all ranks."""
    rounds, deadline = [], time.perf_counter() + MOST_SECONDS
    for turn in range(most):
        run = launch(take_turns, make, peer, turn * ROUNDS, world_size=world_size,
                     device="cpu", timeout=300)  # fmt: skip
        rounds += [list(map(mean, zip(*of_ranks))) for of_ranks in zip(*run.values)]
        margin = compute_overhead(rounds, 2).margin
        yield f"{len(rounds)} rounds, memory=False known to ± {margin:.1f} %"
        if turn + 1 >= FEWEST and (margin <= MARGIN or time.perf_counter() > deadline):
            break
    return rounds


VARIANTS = "once more without measure", "measure(memory=False)", "measure(memory=True)"


def overhead(name, make, world_size):
    """Yield the rows on one kind of block."""
    rounds = yield from rounds_of(make, world_size, torchs_memory_tracker)
    for variant, what in enumerate([*VARIANTS, "torch's MemTracker"], start=1):
        yield overhead_row(rounds, variant, f"{name}: {what}")
    yield peer_row(rounds, name, "MemTracker", MAX_OF_PEERS)


def overhead_row(rounds, variant, what) -> Row:
    more, (plain, its) = compute_overhead(rounds, variant), medians(rounds, 0, variant)
    limited = {"limit": f"<= {MAX_PERCENT:g} %", "holds": more.median <= MAX_PERCENT}
    return Row(
        what, milliseconds(its), milliseconds(plain), str(more), spread=more.middle_half(),
        raw={"plain_seconds": plain, "overhead_percent": more.median, "margin": more.margin,
             "rounds": len(rounds)},
        **(limited if variant == 2 else {}),
    )  # fmt: skip


def medians(rounds, *variants) -> list[float]:
    return [median(times[variant] for times in rounds) for variant in variants]


def peer_row(rounds, name, peer, limit=None) -> Row:
    """Compare what memory=True and a peer add, both as medians of paired ratios."""
    ours, theirs = (compute_overhead(rounds, variant).median for variant in (3, 4))
    return Row(
        f"{name}: what memory=True adds, beside {peer}",
        f"{ours:+.1f} %", f"{theirs:+.1f} %", f"{ours / theirs:.2f}x",
        f"<= {limit:g}x" if limit else "", bool(limit) and ours <= limit * theirs,
        {"ours_percent": ours, "peer_percent": theirs},
    )  # fmt: skip


def compare_profiler():
    name = "a training step (784-1024-10, SGD)"
    rounds = yield from rounds_of(*KINDS[name], torchs_profiler, FEWEST)
    yield peer_row(rounds, name, "torch.profiler, profile_memory")


def do_nothing():
    pass


def small_costs():
    """Time entry and exit with and without memory, and an addition outside and inside a block."""
    x, count = torch.ones(4), 200
    variants = [lambda: run_measured(do_nothing, True), lambda: run_measured(do_nothing, False)]
    empty = [median(seconds_of(variant) for _ in range(count)) for variant in variants]
    additions = [lambda: x + x] * count
    plain = median(seconds_of(call) for call in additions)
    with measure("it"):
        inside = median(seconds_of(call) for call in additions)
    return *empty, plain, inside


def cost_of_small_things():
    with_memory, without, plain, inside = launch(small_costs, world_size=1).values[0]
    yield Row("an empty block, memory=True", microseconds(with_memory), raw={"s": with_memory})
    yield Row("an empty block, memory=False", microseconds(without), raw={"s": without})
    yield Row(
        "an addition of 4 numbers, memory=True",
        microseconds(inside),
        microseconds(plain),
        f"+{microseconds(inside - plain)}",
        raw={"ours_seconds": inside, "peer_seconds": plain},
    )


def measurements() -> list[Measurement]:
    return [
        *(
            Measurement(name, functools.partial(overhead, name, *kind))
            for name, kind in KINDS.items()
        ),
        Measurement("memory=True beside torch.profiler", compare_profiler),
        Measurement("small blocks", cost_of_small_things),
    ]
