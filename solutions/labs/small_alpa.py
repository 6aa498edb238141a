# Built from chapters/ch10_choosing_a_strategy/labs/small_alpa.py by `make build`.
"""A small Alpa: dynamic programming finds which layers form a stage, and on how many devices.

The method is that of Alpa, arXiv 2201.12023, section 5. labs/operator_shardings.py finds how long
a stage takes on its devices.

python labs/small_alpa.py
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from math import inf, isfinite

import numpy as np
from operator_shardings import (
    ANY,
    LAYOUTS,
    MATRICES,
    SAMPLES,
    WHOLE,
    Cluster,
    Job,
    Layer,
    Link,
    mlp,
    product_seconds,
    solve,
)

# ---- The cost of a stage --------------------------------------------------------------------


@cache
def layer_table(layer: Layer, n, job: Job, allowed=ANY):
    """Compute seconds, bytes and ways of a layer on n devices, by the layouts before and after.

    Equal layers are solved once, which makes a model of many layers cheap.

    Shapes  seconds, bytes: (layouts, layouts)
    """
    if n == 1:  # nothing is cut, so all layouts are equal
        products = [each for part in layer.parts for each in part]
        one = sum(product_seconds(each, "replicated", 1, job) for each in products)
        nbytes = sum(each.inputs * each.outputs for each in products) * job.state_bytes
        names = tuple(n for part in layer.parts for n in ("replicated",) * len(part) + (WHOLE,))
        ways = dict.fromkeys(product(LAYOUTS, repeat=2), names)
        return np.full((3, 3), one), np.full((3, 3), nbytes), ways
    found = {(a, b): solve([layer], n, job, a, b, allowed) for a, b in product(LAYOUTS, repeat=2)}
    tables = (np.array([of[k] for of in found.values()]).reshape(3, 3) for k in range(2))
    return *tables, {layouts: of[2] for layouts, of in found.items()}


def append_layer(seconds, nbytes, of_layer):
    """Append one more layer to tables of some layers, through the cheapest layout between.

    Returns  seconds, bytes, and the index of the layout between
    """
    through = seconds[:, :, None] + of_layer[0][None]
    best = through.argmin(1, keepdims=True)
    memory = nbytes[:, :, None] + of_layer[1][None]
    return *(np.take_along_axis(x, best, 1)[:, 0] for x in (through, memory)), best[:, 0]


def stage_tables(layers, n, job, allowed=ANY):
    """Compute seconds and bytes of every stage on n devices; a stage begins and ends by samples.

    Shapes  (layers, layers + 1): of the layers from the first index on, to before the second one
    """
    count, at = len(layers), LAYOUTS.index(SAMPLES)
    tables = [layer_table(layer, n, job, allowed) for layer in layers]
    seconds, nbytes = np.full((2, count, count + 1), inf)
    for first in range(count):
        of = tables[first][:2]
        for end in range(first + 1, count + 1):
            seconds[first, end], nbytes[first, end] = of[0][at, at], of[1][at, at]
            if end < count:
                of = append_layer(*of, tables[end])[:2]
    return seconds, nbytes


def stage_seconds(layers, job):
    """Compute the seconds of every stage on every submesh: the faster of two ways that fits.

    The ways follow Alpa's idea of options: the fastest shardings, and all matrices cut. Memory is
    tested after choosing, and nothing between the two is tried. (Activations are not counted.)

    Returns  seconds: (sizes, layers, layers + 1), inf where nothing fits; and which way it is
    """
    found = []
    for n in job.cluster.sizes:
        ways = [stage_tables(layers, n, job)]
        if n > 1 and not fits(ways[0][1], job).all():  # else the second way is never the faster one
            ways.append(stage_tables(layers, n, job, MATRICES))
        found.append([np.where(fits(nbytes, job), of, inf) for of, nbytes in ways])
    best = np.array([np.min(of, 0) for of in found])
    return best, [np.argmin(of, 0) for of in found]


def fits(nbytes, job):
    """Return which stages have enough memory; those without layers (inf) need none."""
    return (nbytes <= job.cluster.memory) | np.isinf(nbytes)


# ---- The upper level: stages ----------------------------------------------------------------


def step_seconds(times, microbatches) -> float:
    """Return the seconds of a pipeline's step. Source: arXiv 2201.12023, equation 2.

    The first micro-batch goes through all stages; the others follow at the slowest stage's pace.
    """
    return sum(times) + (microbatches - 1) * max(times)


def sums_within(limit, seconds, sizes, devices):
    """Find the least sum of the stages' seconds, each of which is at most `limit`.

    Returns  least[k, d]: of the layers from k on, on exactly d devices; and first[k, d], the first
             stage of these: (end, index of its size)
    """
    count = seconds.shape[1]
    least = np.full((count + 1, devices + 1), inf)
    least[count, 0] = 0.0
    first = np.zeros((count, devices + 1, 2), int)
    allowed = np.where(seconds <= limit, seconds, inf)
    for k in reversed(range(count)):
        for m, size in enumerate(sizes):
            ways = allowed[m, k, k + 1 :, None] + least[k + 1 :, : devices + 1 - size]
            end, old = ways.argmin(0), least[k, size:]
            sums = np.take_along_axis(ways, end[None], 0)[0]
            better = sums < old
            old[better] = sums[better]
            first[k, size:][better] = np.stack([end + k + 1, np.full(len(end), m)], 1)[better]
    return least, first


def slice_layers(seconds, sizes, devices, microbatches, gap=0.0):
    """Find the stages whose step is shortest, on all devices.

    seconds  (sizes, layers, layers + 1), as stage_seconds returns them
    gap      limits that are closer than this share are tried as one: the step found is longer than
             the shortest by this share at most
    Returns  [(first layer, end, size), …]
    Raises   ValueError if no plan fits
    """
    limits = np.unique(seconds[np.isfinite(seconds)])
    if gap and len(limits):  # keep the largest of close ones
        group = np.floor(np.log(limits) / np.log1p(gap))
        limits = limits[np.append(group[1:] > group[:-1], True)]

    def cut_within(limit):
        least, first = sums_within(limit, seconds, sizes, devices)
        return least[0, devices], first

    shortest = cut_within(limits[-1])[0] if len(limits) else inf
    if not isfinite(shortest):
        raise ValueError("no plan fits: take more devices, or devices with more memory")
    best, chosen = inf, None
    for limit in limits[bisect_left(limits, True, key=lambda x: isfinite(cut_within(x)[0])) :]:
        if shortest + (microbatches - 1) * limit >= best:
            break
        found, first = cut_within(limit)
        if found + (microbatches - 1) * limit < best:
            best, chosen = found + (microbatches - 1) * limit, first
    return stages_in(chosen, sizes, devices)


def stages_in(first, sizes, devices):
    """Read the stages from a table of first stages."""
    stages, k = [], 0
    while k < len(first):
        end, m = first[k, devices].tolist()
        stages.append((k, end, sizes[m]))
        k, devices = end, devices - sizes[m]
    return stages


# ---- A plan ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """The layers first, …, end - 1 on so many devices.

    shardings  of each layer: the names of its operators' shardings, and the layout after each part
    seconds    of one micro-batch, forward and backward
    nbytes     of states on each device
    """

    first: int
    end: int
    devices: int
    shardings: tuple[tuple[str, ...], ...] = ()
    seconds: float = 0.0
    nbytes: float = 0.0

    def __str__(self):
        layers = f"{self.first}" if self.end == self.first + 1 else f"{self.first}-{self.end - 1}"
        return f"{layers} on {self.devices}"


def stage_of(layers, job, first, end, n, allowed=ANY) -> Stage:
    """Make a stage with its cheapest shardings."""
    tables = [layer_table(layer, n, job, allowed) for layer in layers[first:end]]
    at = LAYOUTS.index(SAMPLES)
    of, between = tables[0][:2], []
    for table in tables[1:]:
        *of, best = append_layer(*of, table)
        between.append(best)
    path = [at]
    for best in reversed(between):
        path.append(int(best[at, path[-1]]))
    path = [*reversed(path[1:]), at] if between else [at]
    layouts = [LAYOUTS[k] for k in (at, *path)]
    names = tuple(table[2][pair] for table, pair in zip(tables, pairwise(layouts)))
    return Stage(first, end, n, names, *(float(x[at, at]) for x in of))


def plan_of(layers, job, stages, which=None) -> list[Stage]:
    """Make stages of (first, end, size), with shardings; which: as stage_seconds returns it."""
    sizes = job.cluster.sizes
    return [stage_of(layers, job, first, end, n,
                     (ANY, MATRICES)[which[sizes.index(n)][first, end] if which else 0])
            for first, end, n in stages]  # fmt: skip


def search(layers, job, gap=0.0) -> list[Stage]:
    """Find the plan with the shortest step, over stages and shardings."""
    layers, cluster = tuple(layers), job.cluster
    seconds, which = stage_seconds(layers, job)
    stages = slice_layers(seconds, cluster.sizes, cluster.devices, job.microbatches, gap)
    return plan_of(layers, job, stages, which)


def plan_seconds(plan, job) -> float:
    return step_seconds([stage.seconds for stage in plan], job.microbatches)


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    cluster = Cluster(8, 8, 400e12, Link(5e-6, 200e9), Link(20e-6, 25e9), 80e9)
    layers = [mlp(4096, 2048 * (2 + k)) for k in range(12)]
    job = Job(cluster, 8192, 32, 2)
    plan = search(layers, job, gap=0.01)
    seconds = plan_seconds(plan, job)
    print(f"12 layers on {cluster.devices} devices: {1e3 * seconds:.0f} ms a step")
    for stage in plan:
        print(f"  layers {stage}: {', '.join(stage.shardings[0])}")


if __name__ == "__main__":
    main()
