# Built from chapters/ch02_collectives/labs/message_costs.py by `make build`.
"""The cost of messages and large collectives on this machine: latency and bandwidth.

Times need a quiet machine, because other programs can only add to them. Each time is therefore
taken in several rounds, and each docstring says whether the fastest or the median round counts.

torchrun --nproc-per-node 2 labs/message_costs.py
"""

import time
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from collectives import exchange

# ---- A message ------------------------------------------------------------------------------


def there_and_back(x) -> None:
    """Send `x` from rank 0 to rank 1 and back, on two ranks."""
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        dist.recv(x, 0)
        dist.send(x, 0)


def quickest_of_each(way, sizes, rounds=40) -> list[float]:
    """Return the fastest seconds of `way(x)` on this rank, for `x` of each size in bytes.

    Each round goes through all sizes, so that a disturbance affects all of them alike.
    """
    tensors = [torch.zeros(size, dtype=torch.uint8) for size in sizes]
    times = np.full((rounds, len(sizes)), np.inf)
    for x in tensors:
        way(x)  # the first use of memory and of connections
    for number in range(rounds):
        way(tensors[0])  # a call after the largest size is slower, whatever its own size
        for k, x in enumerate(tensors):
            began = time.perf_counter()
            way(x)
            times[number, k] = time.perf_counter() - began
    return times.min(axis=0).tolist()


def one_message(sizes) -> list[float]:
    """Return the seconds of a message of each size: half of the fastest time there and back."""
    return [seconds / 2 for seconds in quickest_of_each(there_and_back, sizes)]


def fit(sizes, seconds) -> tuple[float, float]:
    """Fit the line alpha + size / B; return alpha (seconds) and B (bytes per second).

    All sizes count alike, in percent, because otherwise the largest one alone would decide.
    """
    per_byte, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))
    return float(alpha), float(1 / per_byte)


def predict_sequential_time(count, nbytes, alpha, B) -> float:
    """Predict the seconds of `count` messages of `nbytes` each, if each waits for the previous."""
    return count * (alpha + nbytes / B)


# ---- All-reduces on slow links --------------------------------------------------------------


def time_on_slow_links(all_reduces, sizes, alpha, B, rounds=2) -> dict[str, list[float]]:
    """Time each all-reduce for each size in bytes, on links of latency alpha and B bytes/s.

    all_reduces  {name: function of a tensor}
    Returns      {name: [seconds for each size]} on this rank, in the fastest round after a barrier
    """
    from pedagogy_lib import throttle

    found = {name: [float("inf")] * len(sizes) for name in all_reduces}
    with throttle(B, alpha):
        for name, all_reduce in all_reduces.items():
            all_reduce(torch.zeros(dist.get_world_size()))  # opens the connections
            for k, size in [*enumerate(sizes)] * rounds:
                x = torch.zeros(size // 4)
                dist.barrier()
                began = time.perf_counter()
                all_reduce(x)
                found[name][k] = min(found[name][k], time.perf_counter() - began)
    return found


def slowest_rank(values) -> dict[str, list[float]]:
    """Return the slowest rank's milliseconds for each name and size, from all ranks' values."""
    return {name: [1e3 * max(times) for times in zip(*(of_rank[name] for of_rank in values))]
            for name in values[0]}  # fmt: skip


def find_crossing(sizes, first, second) -> float | None:
    """Find the size at which two lines cross, interpolated on logarithmic axes.

    Returns  the size, or None if the lines do not cross between these sizes
    """
    gap = np.log(np.array(first) / np.array(second))
    changes = np.nonzero(np.diff(np.sign(gap)))[0]
    if not changes.size:
        return None
    k = int(changes[0])
    share = gap[k] / (gap[k] - gap[k + 1])
    return float(np.exp(np.log(sizes[k]) + share * np.log(sizes[k + 1] / sizes[k])))


# ---- Bandwidth ------------------------------------------------------------------------------


def sum_up(x) -> None:
    """Sum up these bytes over all ranks, as float32 numbers."""
    dist.all_reduce(x.view(torch.float32))


def gigabytes_per_second(sizes, seconds, factor=1.0) -> list[float]:
    """Return GB/s for each size in bytes, if `factor` times the size is sent."""
    return [factor * size / t / 1e9 for size, t in zip(sizes, seconds)]


def both_ways(x) -> None:
    """Send half of `x` from each of two ranks to the other, at the same time."""
    half, other = len(x) // 2, 1 - dist.get_rank()
    exchange(x[:half], other, x[half:], other)


def anatomy(nbytes, rounds=15) -> dict[str, float]:
    """Return the median seconds of an all-reduce on two ranks, and of its parts.

    Each rank sends half of the tensor twice, adds up one half, and needs memory for incoming data.
    """
    x = torch.zeros(nbytes // 4)
    half, as_bytes = x[: len(x) // 2], x.view(torch.uint8)
    ways = {
        "all-reduce": lambda: dist.all_reduce(x),
        "a half, one way": lambda: there_and_back(as_bytes[: nbytes // 2]),
        "halves, both ways": lambda: both_ways(as_bytes),
        "adding a half": lambda: half.add_(half),
        "new memory for a half": lambda: torch.ones_like(half),
    }
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            dist.barrier()
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    found = {name: median(of_name) for name, of_name in times.items()}
    return found | {"a half, one way": found["a half, one way"] / 2}


# ---- The program ----------------------------------------------------------------------------


def costs() -> tuple[float, float, float]:
    """Measure alpha and B (0 unless there are two ranks), and the seconds of a small all-reduce."""
    sizes = [2**k for k in range(8, 22)]
    x = torch.zeros(1000)
    alone = quickest_of_each(lambda y: dist.all_reduce(x), [1])[0]
    alpha, B = fit(sizes, one_message(sizes)) if dist.get_world_size() == 2 else (0.0, 0.0)
    return alpha, B, alone


def main():
    from pedagogy_lib import launch

    run = launch(costs, world_size=2)
    if run.rank == 0:
        alpha, B, alone = run.values[0]
        print(f"a message: {alpha * 1e6:.0f} µs and {B / 1e9:.2f} GB/s")
        print(f"an all-reduce of 4 kB: {alone * 1e6:.0f} µs at best")


if __name__ == "__main__":
    main()
