# Built from chapters/ch10_choosing_a_strategy/labs/plan_space.py by `make build`.
"""All plans of a pipeline: their number, the best, equal stages, and sends between stages.

python labs/plan_space.py
"""

from contextlib import suppress
from itertools import combinations, pairwise, product
from math import comb

import numpy as np
from operator_shardings import (
    MATRICES,
    SAMPLES,
    Cluster,
    Job,
    Link,
    graph_of,
    mlp,
)
from small_alpa import (
    plan_of,
    plan_seconds,
    search,
    slice_layers,
    stage_of,
    stage_seconds,
    step_seconds,
)

# ---- All plans ------------------------------------------------------------------------------


def cuts_of(layers, stages):
    """Yield every way to cut so many layers into stages: [(first, end), …]."""
    for inner in combinations(range(1, layers), stages - 1):
        yield list(pairwise((0, *inner, layers)))


def tilings_of(devices, sizes, stages):
    """Yield every sequence of submeshes for so many stages that uses all devices."""
    if stages == 0:
        if devices == 0:
            yield ()
        return
    for size in sizes:
        if size <= devices:
            for rest in tilings_of(devices - size, sizes, stages - 1):
                yield (size, *rest)


def all_stages(layers, cluster):
    """Yield every plan's stages: [(first, end, size), …]."""
    for count in range(1, min(layers, cluster.devices) + 1):
        for tiling in tilings_of(cluster.devices, cluster.sizes, count):
            for cuts in cuts_of(layers, count):
                yield [(first, end, n) for (first, end), n in zip(cuts, tiling)]


def count_tilings(devices, sizes, most) -> list[int]:
    """Count the sequences of 0, 1, 2, …, `most` submeshes that use all devices, by recurrence."""
    counts = np.zeros((most + 1, devices + 1), object)
    counts[0, 0] = 1
    for stages in range(1, most + 1):
        for size in sizes:
            counts[stages, size:] += counts[stages - 1, : devices + 1 - size]
    return counts[:, devices].tolist()


def count_ways(layers, devices) -> int:
    """Count the ways to cut layers into stages whose submeshes, of 1, 2, 4, …, use all devices."""
    sizes = [2**k for k in range(devices.bit_length())]
    tilings = count_tilings(devices, sizes, layers)
    return sum(comb(layers - 1, s - 1) * tilings[s] for s in range(1, layers + 1))


def cheapest_by_trying(layers, n, job) -> float:
    """Return the least seconds of a stage, by trying every sharding of every operator."""
    operators, edges = graph_of(tuple(layers), n, job, SAMPLES, SAMPLES)
    axes = np.ogrid[tuple(slice(len(ways)) for ways in operators)]
    total = sum(np.array([w.seconds for w in ways])[k] for ways, k in zip(operators, axes))
    for (u, v), matrix in edges.items():
        total = total + np.array(matrix)[axes[u], axes[v]]
    return float(total.min())


def search_exhaustively(layers, job):
    """Try all cuts, tilings and shardings.

    Returns  the seconds of the shortest step, and the number of pairs of a cut and a tiling
    """
    count, shortest, taken = 0, np.inf, {}
    for stages in all_stages(len(layers), job.cluster):
        for first, end, n in stages:
            if (first, end, n) not in taken:
                taken[first, end, n] = cheapest_by_trying(layers[first:end], n, job)
        count += 1
        shortest = min(shortest, step_seconds([taken[of] for of in stages], job.microbatches))
    return shortest, count


# ---- Equal stages ---------------------------------------------------------------------------


def uniform_plans(layers, job):
    """Yield plans that a few numbers describe: equally many layers and devices, one sharding.

    Yields  (words, plan)
    """
    cluster, count = job.cluster, len(layers)
    for n in cluster.sizes:
        stages = cluster.devices // n
        if cluster.devices % n or stages > count:
            continue
        ends = [len(part) for part in np.array_split(np.arange(count), stages)]
        cuts = list(pairwise((0, *np.cumsum(ends).tolist())))
        for name, allowed in (("samples", ("samples",)), ("matrices", MATRICES))[: 1 + (n > 1)]:
            plan = [stage_of(tuple(layers), job, a, b, n, allowed) for a, b in cuts]
            if all(stage.nbytes <= cluster.memory for stage in plan):
                yield f"{stages} × {n}, {name}", plan


def best_uniform(layers, job):
    """Return (words, plan) of the fastest uniform plan; (None, None) if none fits."""
    found = list(uniform_plans(layers, job))
    return min(found, key=lambda of: plan_seconds(of[1], job), default=(None, None))


def best_free_cuts(layers, job, gap=0.0):
    """Return the plan of the shortest step if all stages have as many devices, but any layers."""
    layers, cluster, plans = tuple(layers), job.cluster, []
    seconds, which = stage_seconds(layers, job)
    for n, of_size in zip(cluster.sizes, seconds):
        with suppress(ValueError):  # no plan fits
            stages = slice_layers(of_size[None], [n], cluster.devices, job.microbatches, gap)
            plans.append(plan_of(layers, job, stages, which))
    return min(plans, key=lambda plan: plan_seconds(plan, job), default=None)


# ---- Sends between stages -------------------------------------------------------------------


def places_of(sizes, cluster) -> list[list[int]]:
    """Return the devices of each stage; larger submeshes are placed first.

    Then none of them lies on two machines without filling them. Source: arXiv 2201.12023,
    section 5.2.
    """
    places, free = [[] for _ in sizes], 0
    for stage in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        places[stage] = list(range(free, free + sizes[stage]))
        free += sizes[stage]
    return places


def pieces(rows, senders, receivers):
    """Find which rows each sender sends to each receiver, if stages split rows equally, in order.

    Yields  (sender's index in its stage, receiver's index in its stage, first row, end)
    """
    for i, j in product(range(senders), range(receivers)):
        first = max(i * rows // senders, j * rows // receivers)
        end = min((i + 1) * rows // senders, (j + 1) * rows // receivers)
        if first < end:
            yield i, j, first, end


def send_seconds(layers, plan, job) -> float:
    """Return the seconds that sends between stages add to one micro-batch, forward and backward.

    The sends of the other micro-batches are assumed to hide behind computing.
    """
    cluster, total = job.cluster, 0.0
    places = places_of([stage.devices for stage in plan], cluster)
    for (one, here), (_, there) in pairwise(zip(plan, places)):
        row_bytes = layers[one.end - 1].outputs * job.number_bytes
        through = {}  # bytes through each machine's card, or between two of its devices
        for i, j, first, end in pieces(job.rows, len(here), len(there)):
            machines = here[i] // cluster.per_machine, there[j] // cluster.per_machine
            crosses = machines[0] != machines[1]
            key = (crosses, machines[0] if crosses else (i, j))
            through[key] = through.get(key, 0) + (end - first) * row_bytes
        total += 2 * max(
            link.latency + nbytes / link.bytes_per_second
            for (crosses, _), nbytes in through.items()
            for link in [cluster.across if crosses else cluster.inside]
        )
    return total


def seconds_including_sends(layers, plan, job) -> float:
    return plan_seconds(plan, job) + send_seconds(layers, plan, job)


def best_plans(layers, job, seconds_of=plan_seconds):
    """Return all plans with their cheapest shardings, the best first: [(seconds, plan), …].

    seconds_of  takes a plan and the job
    """
    layers = tuple(layers)
    stages = list(all_stages(len(layers), job.cluster))
    which = stage_seconds(layers, job)[1]
    plans = [plan_of(layers, job, of, which) for of in stages]
    return sorted(((seconds_of(plan, job), plan) for plan in plans), key=lambda of: of[0])


def compare_with_all(layers, job) -> tuple[bool, float]:
    """Compare the search's plan with all plans.

    Returns  whether no step is shorter, by its own cost model; and by which share its step is
             longer than the shortest, if sends between stages count
    """
    plan = search(layers, job)
    is_best = plan_seconds(plan, job) <= search_exhaustively(layers, job)[0] * (1 + 1e-9)
    ranked = best_plans(layers, job, lambda other, job: seconds_including_sends(layers, other, job))
    return is_best, seconds_including_sends(layers, plan, job) / ranked[0][0] - 1


def random_layers(count, chance):
    """Draw chains of products of different widths from a numpy generator."""
    widths = 2 ** chance.integers(4, 9, count + 1)
    hidden = 2 ** chance.integers(4, 11, count)
    return tuple(mlp(int(a), int(h), int(b)) for a, h, b in zip(widths, hidden, widths[1:]))


def best_of_tilings(ranked):
    """Return the first plan of each sequence of submeshes, from plans that have the best first."""
    first = {}
    for seconds, plan in ranked:
        first.setdefault(tuple(stage.devices for stage in plan), (seconds, plan))
    return list(first.values())


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    cluster = Cluster(2, 2, 1e9, Link(2e-4, 2e8), Link(1e-3, 2e7))
    layers, job = (mlp(64, 512), mlp(64, 64), mlp(64, 1024)), Job(cluster, 64, 4)
    shortest, count = search_exhaustively(layers, job)
    found = plan_seconds(search(layers, job), job)
    print(f"{count} cuts and tilings; the shortest step {1e3 * shortest:.1f} ms, "
          f"the search's {1e3 * found:.1f} ms")  # fmt: skip
    for words, plan in uniform_plans(layers, job):
        print(f"  equal stages, {words}: {1e3 * plan_seconds(plan, job):.1f} ms")


if __name__ == "__main__":
    main()
