# Built from chapters/ch02_collectives/labs/message_costs.py by `make build`.
"""The cost of messages and large collectives on this machine: latency and bandwidth.

Times need a quiet machine, because other programs can only add to them. Each time is therefore
taken in several rounds, and each docstring says which round and which rank counts.

torchrun --nproc-per-node 2 labs/message_costs.py
"""

import time
from itertools import product

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


def time_rounds(way, sizes, rounds=40) -> list[list[float]]:
    """Return the seconds of `way(x)` on this rank: for each round, a list with each size in bytes.

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
    return times.tolist()


def quickest_of_each(way, sizes, rounds=40) -> list[float]:
    """Return the fastest seconds of `way(x)` on this rank, for `x` of each size in bytes."""
    return np.min(time_rounds(way, sizes, rounds), axis=0).tolist()


def fastest_round(of_ranks) -> list[float]:
    """Return the seconds for each size in the fastest round, in which the slowest rank counts.

    The fastest time of each rank would be too short: a rank that comes late to a call waits for
    nobody.

    of_ranks  the seconds of each rank, for each round and size, as from `time_rounds`
    """
    return np.max(of_ranks, axis=0).min(axis=0).tolist()


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


def time_on_slow_links(all_reduces, sizes, alpha, B, rounds=2) -> dict[str, list[list[float]]]:
    """Time each all-reduce for each size in bytes, on links of latency alpha and B bytes/s.

    all_reduces  {name: function of a tensor}
    Returns      {name: seconds for each round and size, each after a barrier} on this rank
    """
    from pedagogy_lib import throttle

    found = {name: [[0.0] * len(sizes) for _ in range(rounds)] for name in all_reduces}
    with throttle(B, alpha):
        for all_reduce in all_reduces.values():
            all_reduce(torch.zeros(dist.get_world_size()))  # opens the connections
        for number, name in product(range(rounds), all_reduces):  # all ways take turns
            for k, size in enumerate(sizes):
                x = torch.zeros(size // 4)
                dist.barrier()
                began = time.perf_counter()
                all_reduces[name](x)
                found[name][number][k] = time.perf_counter() - began
    return found


def slowest_rank(values) -> dict[str, list[float]]:
    """Return the milliseconds for each name and size, from all ranks' values: see fastest_round."""
    return {name: [1e3 * t for t in fastest_round([of_rank[name] for of_rank in values])]
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


def one_way_each(x, incoming) -> None:
    """Send half of `x` from rank 0 to rank 1, then as much back, with the calls of `exchange`."""
    rank, half = dist.get_rank(), len(x) // 2
    for sender in (0, 1):
        operation, data = (dist.isend, x[:half]) if rank == sender else (dist.irecv, incoming)
        for request in dist.batch_isend_irecv([dist.P2POp(operation, data, 1 - rank)]):
            request.wait()


def anatomy(nbytes, rounds=15) -> list[dict[str, float]]:
    """Take an all-reduce on two ranks apart: return the seconds of its parts in each round.

    It is the ring on two ranks, by hand, with a clock between its parts, which therefore add up to
    "all". For comparison come Gloo's all-reduce, and a half that travels alone by the same calls.
    """
    x = torch.zeros(nbytes // 8 * 2)
    half, other, found = len(x) // 2, 1 - dist.get_rank(), []
    mine, theirs, incoming = x[:half], x[half:], torch.zeros(half)
    for _ in range(1 + rounds):  # the first round opens connections
        dist.barrier()
        times = [time.perf_counter()]
        for part in (
            lambda: exchange(theirs, other, incoming, other),
            lambda: mine.add_(incoming),
            lambda: exchange(mine, other, theirs, other),
            dist.barrier,
            lambda: one_way_each(x, incoming),
            dist.barrier,
            lambda: dist.all_reduce(x),
        ):
            part()
            times.append(time.perf_counter())
        first, adding, second, _, there_and_back, _, gloo = np.diff(times).tolist()
        found.append({
            "first exchange": first, "addition": adding, "second exchange": second,
            "all": first + adding + second,
            "one half alone": there_and_back / 2, "Gloo's all-reduce": gloo,
        })  # fmt: skip
    return found[1:]


def typical_round(rounds) -> dict[str, float]:
    """Return the round in which "all" took the median time."""
    return sorted(rounds, key=lambda one: one["all"])[len(rounds) // 2]


def describe_anatomy(rounds) -> str:
    """Describe what the second message at the same moment costs, and how Gloo's call compares.

    The middle half of the rounds has to agree; otherwise no difference is claimed.
    """
    from pedagogy_lib import compare_rounds

    alone, gloo, by_hand = (
        [r[name] for r in rounds] for name in ("one half alone", "Gloo's all-reduce", "all")
    )
    both = compare_rounds([(r["first exchange"] + r["second exchange"]) / 2 for r in rounds], alone)
    said = "too unsteady to say whether it is free"
    if both.high < 1.3:
        said = "so the second one is nearly free"
    elif both.low > 1.5:
        said = "so the second one is not free"
    to_hand = compare_rounds(gloo, by_hand)
    return (f"two halves at once, compared with one alone: {both}:\n    {said}\n"
            f"Gloo's all-reduce, compared with the one by hand: {to_hand}:\n"
            f"    {to_hand.word}")  # fmt: skip


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
