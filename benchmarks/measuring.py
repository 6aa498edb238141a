"""What `measure` costs: blocks of about 20 ms with and without it, one after the other.

Work of one rank is timed by its processor time, so that other programs do not count; a collective,
which waits for others, by the clock on the wall.
"""

import contextlib
import functools
import os
import time
from statistics import median

import torch
import torch.distributed as dist
from rows import Row, microseconds, milliseconds
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from pedagogy_lib import launch, measure

BLOCK_SECONDS = 0.020
ROUNDS = 60
MAX_PERCENT = 3.0


def clock() -> float:
    return time.process_time() if dist.get_world_size() == 1 else time.perf_counter()


def seconds_of(work) -> float:
    began = clock()
    work()
    return clock() - began


def measured(work, memory):
    with measure("it", memory=memory):
        work()


def amount_for_20_ms(make) -> int:
    """How much of a kind of work lasts about 20 ms: the same on every rank."""
    amount = 8
    for _ in range(4):
        work = make(amount)
        work()
        seconds = torch.tensor(median(seconds_of(work) for _ in range(5)))
        dist.broadcast(seconds, 0)
        amount = max(1, round(amount * BLOCK_SECONDS / seconds.item()))
    return amount


def all_reduce(amount):
    x = torch.ones(amount * 10_000)
    return lambda: dist.all_reduce(x)


def matrix_products(amount):
    a = torch.randn(512, 512)

    def work():
        for _ in range(amount):
            a @ a

    return work


def perceptron():
    """That of every first lesson: 784 pixels, 1,024 hidden units, 10 digits."""
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def training(model, optimizer, amount):
    images, labels = torch.randn(4 * amount, 784), torch.randint(10, (4 * amount,))

    def work():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return work


def training_step(amount):
    return training(*perceptron(), amount)


KINDS = {
    "an all-reduce, 2 ranks": (all_reduce, 2),
    "products of 512 x 512 matrices": (matrix_products, 1),
    "a training step (784-1024-10, SGD)": (training_step, 1),
}


def take_turns(variants) -> list[list[float]]:
    """Seconds of each variant, round by round, in changing order."""
    for variant in variants * 3:
        variant()
    rounds = []
    for turn in range(ROUNDS):
        seconds = [0.0] * len(variants)
        for step in range(len(variants)):
            index = (turn + step) % len(variants)
            dist.barrier()
            seconds[index] = seconds_of(variants[index])
        rounds.append(seconds)
    return rounds


class Nothing(TorchDispatchMode):
    """The least that a tracker in Python costs: a call for each operation."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # True would add a detour to each call

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs) if kwargs else func(*args)


def under_a_mode_that_does_nothing(work):
    with Nothing():
        work()


def plain_and_measured(make):
    work = make(amount_for_20_ms(make))
    variants = [
        lambda: measured(work, memory=False),
        lambda: measured(work, memory=True),
        lambda: under_a_mode_that_does_nothing(work),
    ]
    return take_turns([work, *variants])


@contextlib.contextmanager
def torchs_memory_tracker(model, optimizer):
    """Bytes by kind, as ours; torch keeps it private."""
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        yield


@contextlib.contextmanager
def torchs_profiler(model, optimizer):
    """In C++; tells allocations, not what they are for."""
    with torch.profiler.profile(profile_memory=True):
        yield


PEERS = {
    "torch's MemTracker": torchs_memory_tracker,
    "torch.profiler, profile_memory": torchs_profiler,
}


def plain_measured_and_by_peers():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the profiler greets at every start
    model, optimizer = perceptron()
    work = training(model, optimizer, amount_for_20_ms(training_step))

    def by(peer):
        with peer(model, optimizer):
            work()

    peers = [functools.partial(by, peer) for peer in PEERS.values()]
    return take_turns([work, lambda: measured(work, True), *peers])


def added_seconds(rounds, variant) -> float:
    """The median difference of neighbours: what both have in common, noise too, drops out."""
    return median(times[variant] - times[0] for times in rounds)


# Whoever follows every operation pays for a call of Python each time, the more so as matrices
# have driven Python out of the processor's caches: the last row tells how much that is by itself.
VARIANTS = {
    "measure(memory=False) around": MAX_PERCENT,
    "measure(memory=True) around": MAX_PERCENT,
    "of which a call for each operation:": None,
}


def overhead() -> list[Row]:
    rows = []
    for name, (make, world_size) in KINDS.items():
        launched = launch(plain_and_measured, make, world_size=world_size)
        rounds = [times for of_rank in launched.values for times in of_rank]
        plain = median(times[0] for times in rounds)
        for variant, (what, limit) in enumerate(VARIANTS.items(), start=1):
            percent = 100 * added_seconds(rounds, variant) / plain
            rows.append(
                Row(
                    f"{what} {name}",
                    milliseconds(plain + added_seconds(rounds, variant)),
                    milliseconds(plain),
                    f"{percent:+.1f} %",
                    f"<= {limit:g} %" if limit else "",
                    percent <= limit if limit else None,
                    {"plain_seconds": plain, "overhead_percent": percent},
                )
            )
    return rows


def beside_other_trackers() -> list[Row]:
    rounds = launch(plain_measured_and_by_peers, world_size=1).values[0]
    ours = added_seconds(rounds, 1)
    return [
        beside_one(name, ours, added_seconds(rounds, variant))
        for variant, name in enumerate(PEERS, start=2)
    ]


def beside_one(name, ours, theirs) -> Row:
    return Row(
        f"what memory=True adds to a training step, beside {name}",
        milliseconds(ours),
        milliseconds(theirs),
        f"{theirs / ours:.1f}x",
        raw={"ours_seconds": ours, "peer_seconds": theirs},
    )


def nothing():
    pass


def small_costs():
    """Entry and exit, with and without memory; an operation, plain and in a block."""
    x, count = torch.ones(4), 200
    variants = [lambda: measured(nothing, True), lambda: measured(nothing, False)]
    empty = [median(seconds_of(variant) for _ in range(count)) for variant in variants]
    additions = [lambda: x + x] * count
    plain = median(seconds_of(call) for call in additions)
    with measure("it"):
        inside = median(seconds_of(call) for call in additions)
    return *empty, plain, inside


def cost_of_small_things() -> list[Row]:
    with_memory, without, plain, inside = launch(small_costs, world_size=1).values[0]
    return [
        Row("an empty block, memory=True", microseconds(with_memory), raw={"s": with_memory}),
        Row("an empty block, memory=False", microseconds(without), raw={"s": without}),
        Row(
            "an addition of 4 numbers, memory=True",
            microseconds(inside),
            microseconds(plain),
            f"+{microseconds(inside - plain)}",
            raw={"ours_seconds": inside, "peer_seconds": plain},
        ),
    ]
