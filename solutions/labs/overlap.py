# Built from chapters/ch03_data_parallel/labs/overlap.py by `make build`.
"""Overlap of communication and the backward, with emulated layers and throttled links.

python labs/overlap.py
"""

import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from collectives import all_reduce_ring
from data_parallel import DDP, make_async, no_sync
from language_model import Transformer, draw_batch, mean_loss
from step_films import film_step
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pedagogy_lib import measure, throttle

LAYERS = 6
NUMBERS = 60_000  # elements in the gradient of a layer
SECONDS = 0.005  # a layer's forward sleeps this long, its backward twice as long


class Sleep(torch.autograd.Function):
    """A copy of x after `seconds`, whose backward takes twice as long and has a real gradient."""

    @staticmethod
    def forward(ctx, x, weight, seconds):
        ctx.weight, ctx.seconds = weight, seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.seconds)
        return gradient, torch.ones_like(ctx.weight), None


class SleepLayer(nn.Module):
    """A layer that computes nothing in SECONDS and has a gradient to be sent."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(NUMBERS))

    def forward(self, x):
        return Sleep.apply(x, self.weight, SECONDS)


def time_all_reduce(x, group=None):
    with measure("all_reduce", memory=False):
        all_reduce_ring(x, group)


def begin_at_the_end(x, group=None):
    """Return a function that runs the whole all-reduce when called, instead of beginning it now."""
    return lambda: time_all_reduce(x, group)


def make_sleep_model(layers_per_bucket, begin):
    model = nn.Sequential(*(SleepLayer() for _ in range(LAYERS)))
    return DDP(model, 4 * NUMBERS * layers_per_bucket, begin)


def step(label, layers_per_bucket, meanwhile):
    """Measure one step as `label`, and its forward, its backward and each all-reduce."""
    ddp = make_sleep_model(
        layers_per_bucket, make_async(time_all_reduce) if meanwhile else begin_at_the_end
    )
    dist.barrier()
    with measure(label, memory=False):
        with measure("forward", memory=False):
            y = ddp(torch.ones(1))
        with measure("backward", memory=False):
            y.backward()
        ddp.finish()


def throttle_link(travel):
    """Throttle links so that a layer's gradient travels for `travel` forwards, on two ranks."""
    return throttle(4 * NUMBERS / (travel * SECONDS))


def two_steps(travel=2, rounds=1):
    """Measure two layers in a bucket: communication after the backward, and then during it."""
    with throttle_link(travel):
        all_reduce_ring(torch.ones(4))  # the first messages open the connections
        for _ in range(rounds):
            step("afterwards", 2, meanwhile=False)
            step("meanwhile", 2, meanwhile=True)


def steps_with_buckets(sizes, travel, rounds=3):
    """Measure steps for each number of layers in a bucket, labelled 1, 2, …, in a few rounds."""
    with throttle_link(travel):
        all_reduce_ring(torch.ones(4))
        for _ in range(rounds):
            for size in sizes:
                step(str(size), size, meanwhile=True)


def compare_no_sync(travel=2, micro_batches=3):
    """Measure a step of micro-batches with an exchange in each backward, and one with no_sync."""
    with throttle_link(travel):
        all_reduce_ring(torch.ones(4))
        for label, silent in {"each time": False, "no_sync": True}.items():
            ddp = make_sleep_model(2, make_async(time_all_reduce))
            dist.barrier()
            with measure(label, memory=False):
                for number in range(1, micro_batches + 1):
                    is_silent = silent and number < micro_batches
                    with no_sync(ddp) if is_silent else nullcontext():
                        with measure("forward", memory=False):
                            y = ddp(torch.ones(1))
                        with measure("backward", memory=False):
                            y.backward()
                    if not is_silent:
                        ddp.finish()


def forwards_of_steps(sizes, travel) -> list[float]:
    """Return the time of a step for each number of layers in a bucket, in forwards of a layer."""
    from pedagogy_lib import launch

    run = launch(steps_with_buckets, sizes, travel, world_size=2, device="cpu")
    return [min(run[str(size)].rounds) / SECONDS for size in sizes]


# ---- PyTorch's DDP --------------------------------------------------------------------------


def when_buckets_leave(text, rounds=9) -> list[list[float]]:
    """Return when PyTorch's DDP sends each bucket: shares of the backward's time in each round."""
    ddp, times = DistributedDataParallel(Transformer(), bucket_cap_mb=0.1), []
    shares = []

    def note_time(state, bucket):
        times.append(time.perf_counter())
        average = bucket.buffer() / dist.get_world_size()
        return dist.all_reduce(average, async_op=True).get_future().then(lambda f: f.value()[0])

    ddp.register_comm_hook(None, note_time)
    inputs, targets = draw_batch(text, 16, 0)
    for _ in range(3 + rounds):  # from the second one on, buckets follow the backward's order
        loss = mean_loss(ddp(inputs), targets)
        times[:] = [time.perf_counter()]
        loss.backward()
        began, *left = times
        seconds = time.perf_counter() - began
        shares.append([(moment - began) / seconds for moment in left])
    return [list(of_bucket) for of_bucket in zip(*shares[3:])]


# ---- A film of a step -----------------------------------------------------------------------


def film_ddp_step(data):
    """Train one step of a small model with DDP in two buckets, and film it on each rank."""
    torch.manual_seed(0)
    sizes = (64, 16), (16, 16), (16, 10)
    first, second, third = (nn.Linear(*size) for size in sizes)
    model = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), third).double()
    ddp, optimizer = DDP(model, 2_000), torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (x[32 * dist.get_rank() :][:32] for x in data[:2])
    with film_step(model, ddp.buckets) as film:
        nn.functional.cross_entropy(ddp(images - 0.5), labels).backward()
        ddp.finish()
        optimizer.step()
    return film


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(two_steps, world_size=2, device="cpu")
    for label in ("afterwards", "meanwhile"):
        print(f"communication {label}: {1e3 * max(run[label].seconds):.0f} ms a step")


if __name__ == "__main__":
    main()
