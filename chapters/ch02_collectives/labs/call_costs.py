"""The cost of a collective's call in addition to its bytes: many small calls, and buckets.

Times need a quiet machine, because other programs can only add to them. Each time is therefore
taken in several rounds, and the fastest round counts unless stated otherwise.

torchrun --nproc-per-node 2 labs/call_costs.py
"""

import resource
import time
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from collectives import all_reduce_ring, exchange
from message_costs import fastest_round, there_and_back

# ---- Many small calls ------------------------------------------------------------------------


def time_calls(way, x, rounds=9) -> list[dict]:
    """Time `way(row)` for each row of `x`, one after another, in several rounds.

    Returns  for each round, `total` seconds and the seconds of `each` call; and as means per call,
             `cpu` seconds of all threads of this rank, and `sleeps`: how often one went to sleep
    """
    found = []
    for _ in range(rounds):
        dist.barrier()
        used, began, each = read_cpu_usage(), time.perf_counter(), []
        for row in x:
            at = time.perf_counter()
            way(row)
            each.append(time.perf_counter() - at)
        total = time.perf_counter() - began
        cpu, sleeps = np.subtract(read_cpu_usage(), used) / len(x)
        found.append({"total": total, "each": each, "cpu": float(cpu), "sleeps": float(sleeps)})
    return found


def read_cpu_usage() -> tuple[float, int]:
    """Return the CPU seconds of this process's threads, and how often one of them went to sleep."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


def small_calls(way=dist.all_reduce, calls=128, elements=1000) -> dict:
    """Time many calls of `way` with a small tensor, one after another, in nine rounds.

    Returns  `totals`, the seconds of all rounds in their order; and `each`, the seconds of each
             call, for each round
    """
    rounds = time_calls(way, torch.zeros(calls, elements))
    return {"totals": [one["total"] for one in rounds], "each": [one["each"] for one in rounds]}


def find_best(of_ranks) -> dict:
    """Return `totals`, and `best`: each call's seconds in its best round, on the slowest rank.

    of_ranks  the result of `small_calls` on each rank
    """
    each = [of_rank["each"] for of_rank in of_ranks]
    return {"totals": of_ranks[0]["totals"], "best": fastest_round(each)}


def rows_of_rounds(calls, of_call) -> list[list[str]]:
    """Return a row per number of ranks: the seconds of the model and of `small_calls`.

    calls    {n: the result of `find_best` on n ranks}
    of_call  {n: seconds of one call according to the model}
    """
    rows = []
    for n, one in calls.items():
        t = one["totals"]
        at_best = sum(one["best"])
        seconds = (len(one["best"]) * of_call[n], t[0], max(t), median(t), min(t), at_best)
        rows.append([n, *(f"{1e3 * s:.1f} ms" for s in seconds)])
    return rows


# ---- Messages of a call ----------------------------------------------------------------------

HEADERS = 144  # bytes per message: two headers of 48 from its sender, one from its receiver


def count_messages(nbytes=4000) -> None:
    """Measure a message of `nbytes` from each rank to the next, and their all-reduce by Gloo."""
    from pedagogy_lib import measure

    x, n = torch.zeros(nbytes // 4), dist.get_world_size()
    following, previous = (dist.get_rank() + 1) % n, (dist.get_rank() - 1) % n
    ways = {
        "one message": lambda: exchange(x, following, x.clone(), previous),
        "all-reduce": lambda: dist.all_reduce(x),
    }
    for name, way in ways.items():
        way()  # opens the connections
        dist.barrier()
        with measure(name, memory=False):
            way()


def messages_sent(run, name, nbytes) -> float:
    """Return how many messages rank 0 has sent, if all its bytes except `nbytes` are headers."""
    return (run[name].sent_bytes[0] - nbytes) / HEADERS


def side_by_side(calls=128, elements=1000, rounds=9) -> dict[str, dict]:
    """Time a message there and back, the lab's ring, and Gloo's all-reduce in turn, on two ranks.

    Returns  for each way the result of `time_calls` for its fastest round; `call`, the seconds of
             its fastest call; and `totals`, the seconds of all rounds
    """
    x, found = torch.zeros(calls, elements), {}
    ways = {
        "there and back": there_and_back,
        "the lab's ring": all_reduce_ring,
        "Gloo's all-reduce": dist.all_reduce,
    }
    for _ in range(rounds):
        for name, way in ways.items():
            found.setdefault(name, []).extend(time_calls(way, x, rounds=1))
    return {
        name: min(each, key=lambda one: one["total"])
        | {"call": min(min(one["each"]) for one in each)}
        | {"totals": [one["total"] for one in each[1:]]}  # the first round warms up
        for name, each in found.items()
    }


def cores_alone(of_ranks, name, cores) -> float:
    """Return the least average seconds of a call: the CPU time of all ranks divided by `cores`."""
    return sum(of_rank[name]["cpu"] for of_rank in of_ranks) / cores


def rows_of_calls(of_ranks, messages, of_model, cores) -> list[list[str]]:
    """Return a row per way: the messages of both ranks, the sleeps, and four times of a call.

    The times are the model's, the fastest call's, the average, and the least that the cores allow.

    of_ranks   the result of `side_by_side` on each rank
    messages   {way: the messages of both ranks}
    of_model   {way: seconds of the model}
    """
    rows = []
    for name, one in of_ranks[0].items():
        average = one["total"] / len(one["each"])
        times = of_model[name], one["call"], average, cores_alone(of_ranks, name, cores)
        rows.append([name, messages[name], f"{one['sleeps']:.1f}",
                     *(f"{1e6 * t:.0f} µs" for t in times)])  # fmt: skip
    return rows


def describe_calls(of_ranks, cores) -> str:
    """Describe whether more messages took longer in this run, and how busy the cores were."""
    from pedagogy_lib import compare_rounds

    back, *others = (one["totals"] for one in of_ranks[0].values())  # of equally many calls
    ring, gloo = (compare_rounds(totals, back) for totals in others)
    name, one = list(of_ranks[0].items())[-1]
    busy = cores_alone(of_ranks, name, cores) * len(one["each"]) / one["total"]
    said = "so whether messages of the same moment are free is not decided here"
    if min(ring.low, gloo.low) > 1.2:
        said = "so messages of the same moment are not free"
    elif max(ring.high, gloo.high) < 1.2:
        said = "so messages of the same moment cost little here"
    return (
        f"average calls, compared with there and back:\n    the ring: {ring}\n"
        f"    Gloo: {gloo}\n{said}\n"
        f"of the time of Gloo's calls, the {cores} cores compute for them for {busy:.0%}; "
        "the rest is\nwaiting, or other programs"
    )


# ---- Buckets --------------------------------------------------------------------------------


def time_buckets(all_reduce_buckets, bucket_sizes, calls=512, elements=1000, rounds=4) -> list:
    """Return the fastest seconds to add up many small tensors, for each bucket size in bytes."""
    tensors = list(torch.zeros(calls, elements))
    best = [float("inf")] * len(bucket_sizes)
    for k, size in [*enumerate(bucket_sizes)] * rounds:
        dist.barrier()
        began = time.perf_counter()
        all_reduce_buckets(tensors, size)
        best[k] = min(best[k], time.perf_counter() - began)
    return best


# ---- The program ----------------------------------------------------------------------------


def costs() -> list[float]:
    """Measure the messages of one small all-reduce, and return the seconds of rounds of 128."""
    count_messages()
    return small_calls()["totals"]


def main():
    from pedagogy_lib import launch

    run = launch(costs)
    if run.rank == 0:
        n, totals = run.world_size, run.values[0]
        count = messages_sent(run, "all-reduce", 2 * (n - 1) / n * 4000)
        print(f"an all-reduce of 4 kB: {count:.1f} messages from each of {n} ranks")
        print(f"128 of them: {1e3 * min(totals):.1f} to {1e3 * max(totals):.1f} ms")


if __name__ == "__main__":
    main()
