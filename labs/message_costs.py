"""What messages and collectives cost on this machine: latency, bandwidth, and all the rest.

Times need a quiet machine: other programs can only add to them. So each is taken in several
rounds, and what is returned says whether it is the quickest or the middle one.

torchrun --nproc-per-node 2 labs/message_costs.py
"""

import resource
import time
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from collectives import exchange

# ---- A message ------------------------------------------------------------------------------


def there_and_back(x) -> None:
    """Two ranks: rank 0 sends `x`, and rank 1 sends it back."""
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        dist.recv(x, 0)
        dist.send(x, 0)


def quickest_of_each(way, sizes, rounds=40) -> list[float]:
    """Seconds that `way(x)` takes on this rank for `x` of each size in bytes: the quickest round.

    Each round goes through all sizes, so that a disturbance hits all of them alike.
    """
    tensors = [torch.zeros(size, dtype=torch.uint8) for size in sizes]
    times = np.full((rounds, len(sizes)), np.inf)
    for x in tensors:
        way(x)  # the first use of memory and of connections
    for number in range(rounds):
        for k, x in enumerate(tensors):
            began = time.perf_counter()
            way(x)
            times[number, k] = time.perf_counter() - began
    return times.min(axis=0).tolist()


def one_message(sizes) -> list[float]:
    """Seconds that a message of each size takes: half of the way there and back."""
    return [seconds / 2 for seconds in quickest_of_each(there_and_back, sizes)]


def fit(sizes, seconds) -> tuple[float, float]:
    """alpha (seconds) and B (bytes per second) of the line that fits alpha + size / B.

    All sizes count alike, in percent: otherwise the largest one would decide alone.
    """
    per_byte, alpha = np.polyfit(sizes, seconds, 1, w=1 / np.array(seconds))
    return float(alpha), float(1 / per_byte)


def in_turn(count, nbytes, alpha, B) -> float:
    """Seconds of `count` messages of `nbytes` each, if each waits for the one before it."""
    return count * (alpha + nbytes / B)


# ---- All-reduces on slow links --------------------------------------------------------------


def on_slow_links(all_reduces, sizes, alpha, B, rounds=2) -> dict[str, list[float]]:
    """Seconds of each all-reduce for each size in bytes, on links of latency alpha and B bytes/s.

    all_reduces  {name: function of a tensor}
    Returns      of this rank the quicker of two rounds, between barriers
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
    """Of what each rank has returned, for each name and size the slowest rank's: milliseconds."""
    return {name: [1e3 * max(times) for times in zip(*(of_rank[name] for of_rank in values))]
            for name in values[0]}  # fmt: skip


def crossing(sizes, first, second) -> float:
    """The size at which two lines cross, read off between their points on logarithmic axes."""
    gap = np.log(np.array(first) / np.array(second))
    k = int(np.nonzero(np.diff(np.sign(gap)))[0][0])
    share = gap[k] / (gap[k] - gap[k + 1])
    return float(np.exp(np.log(sizes[k]) + share * np.log(sizes[k + 1] / sizes[k])))


# ---- A call ---------------------------------------------------------------------------------


def in_a_row(way, x, rounds=9) -> list[dict]:
    """`way(row)` for each row of `x`, one after another, in several rounds.

    Returns  for each round `total` seconds, `each` of the calls; and for each call `cpu` seconds of
             all threads of this rank, and `sleeps`: how often one of them went to sleep
    """
    found = []
    for _ in range(rounds):
        dist.barrier()
        used, began, each = used_so_far(), time.perf_counter(), []
        for row in x:
            at = time.perf_counter()
            way(row)
            each.append(time.perf_counter() - at)
        total = time.perf_counter() - began
        cpu, sleeps = np.subtract(used_so_far(), used) / len(x)
        found.append({"total": total, "each": each, "cpu": float(cpu), "sleeps": float(sleeps)})
    return found


def used_so_far() -> tuple[float, int]:
    """CPU seconds of all threads of this process, and how often one of them went to sleep."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


def call_after_a_pause(x, rounds=25, pause=0.004) -> float:
    """Median seconds of one all-reduce, each after a barrier and a pause."""
    times = []
    for _ in range(rounds):
        dist.barrier()
        time.sleep(pause)
        began = time.perf_counter()
        dist.all_reduce(x)
        times.append(time.perf_counter() - began)
    return median(times)


def calls_begun(x, rounds=5) -> tuple[float, float]:
    """Seconds for each call to begin all-reduces of all rows, and until all are done: medians."""
    begun, done = [], []
    for _ in range(rounds):
        dist.barrier()
        began = time.perf_counter()
        requests = [dist.all_reduce(row, async_op=True) for row in x]
        begun.append((time.perf_counter() - began) / len(x))
        for request in requests:
            request.wait()
        done.append((time.perf_counter() - began) / len(x))
    return median(begun), median(done)


def small_calls(way=dist.all_reduce, calls=128, elements=1000) -> dict:
    """Many calls of `way` with a small tensor, one after another: the round of the middle.

    Returns  what `in_a_row` tells of it, and `totals`, the seconds of all rounds in their order
    """
    x = torch.zeros(calls, elements)
    rounds = in_a_row(way, x)
    middle = sorted(rounds, key=lambda one: one["total"])[len(rounds) // 2]
    return middle | {"totals": [one["total"] for one in rounds]}


def begun_and_done(calls=128, elements=1000) -> dict[str, float]:
    """Seconds of a small all-reduce in other ways than one after another."""
    x = torch.zeros(calls, elements)
    begun, done = calls_begun(x)
    return {"begun": begun, "done": done, "after a pause": call_after_a_pause(x[0])}


# ---- Bandwidth ------------------------------------------------------------------------------


def both_ways(x) -> None:
    """Two ranks: each sends half of `x` to the other, at the same time."""
    half, other = len(x) // 2, 1 - dist.get_rank()
    exchange(x[:half], other, x[half:], other)


def anatomy(nbytes, rounds=15) -> dict[str, float]:
    """Median seconds of an all-reduce on two ranks, and of what it is made of.

    Each rank sends half of the tensor twice, adds up one half, and needs memory for what comes.
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


def in_buckets(all_reduce_buckets, bucket_sizes, calls=128, elements=1000, rounds=5) -> list:
    """Quickest seconds to add up many small tensors, for each size of a bucket in bytes."""
    tensors = list(torch.zeros(calls, elements))
    best = [float("inf")] * len(bucket_sizes)
    for k, size in [*enumerate(bucket_sizes)] * rounds:
        dist.barrier()
        began = time.perf_counter()
        all_reduce_buckets(tensors, size)
        best[k] = min(best[k], time.perf_counter() - began)
    return best


# ---- The program ----------------------------------------------------------------------------


def costs() -> tuple[float, float, float, float]:
    sizes = [2**k for k in range(8, 22)]
    x = torch.zeros(1000)
    alone = quickest_of_each(lambda y: dist.all_reduce(x), [1])[0]
    alpha, B = fit(sizes, one_message(sizes)) if dist.get_world_size() == 2 else (0.0, 0.0)
    return alpha, B, alone, small_calls()["total"]


def main():
    from pedagogy_lib import launch

    run = launch(costs, world_size=2)
    if run.rank == 0:
        alpha, B, alone, many = run.values[0]
        print(f"a message: {alpha * 1e6:.0f} µs and {B / 1e9:.2f} GB/s")
        print(f"an all-reduce of 4 kB: {alone * 1e6:.0f} µs at best; 128: {many * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
