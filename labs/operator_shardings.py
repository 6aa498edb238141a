# Built from chapters/ch10_choosing_a_strategy/labs/operator_shardings.py by `make build`. Write your answers here.
"""The sharding of each operator of some layers on a stage's devices, by an integer program.

The method is that of Alpa, arXiv 2201.12023, section 4; here with one axis of devices.

python labs/operator_shardings.py
"""

from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

WHOLE, SAMPLES, FEATURES = LAYOUTS = ("whole", "samples", "features")  # of an activation
SHARDINGS = {  # of a product of matrices: (layout of its input, of its output)
    "replicated": (WHOLE, WHOLE),
    "samples": (SAMPLES, SAMPLES),
    "columns": (WHOLE, FEATURES),
    "rows": (FEATURES, WHOLE),
}
ANY, MATRICES = tuple(SHARDINGS), ("columns", "rows")

# ---- Devices, and the model to train --------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """A link between two devices: seconds of an empty message, and bytes per second."""

    latency: float
    bytes_per_second: float


@dataclass(frozen=True)
class Cluster:
    """Machines of equally many devices.

    flops   that a device computes per second
    inside  the link between devices of a machine; across: that between machines
    memory  bytes of a device
    """

    machines: int
    per_machine: int
    flops: float
    inside: Link
    across: Link
    memory: float = inf

    def __post_init__(self):
        if self.machines < 1 or self.per_machine.bit_count() != 1:
            raise ValueError("a machine has 1, 2, 4, 8, … devices, and one machine is the least")

    @property
    def devices(self) -> int:
        return self.machines * self.per_machine

    @property
    def sizes(self) -> list[int]:
        """Sizes of submeshes for a stage: 1, 2, 4, … devices of a machine, or whole machines."""
        return [2**k for k in range(self.devices.bit_length())]

    def link(self, n) -> Link:
        """Return the slowest link in a ring of n devices."""
        return self.inside if n <= self.per_machine else self.across


@dataclass(frozen=True)
class Job:
    """The way in which a model is trained.

    rows          of a micro-batch: samples, or tokens
    microbatches  of a step
    number_bytes  of each number that is sent
    state_bytes   of each parameter, with its gradient and the optimizer's states
    """

    cluster: Cluster
    rows: int
    microbatches: int
    number_bytes: int = 4
    state_bytes: int = 16


@dataclass(frozen=True)
class Product:
    """An operator: rows of so many inputs, times a matrix.

    more_flops  forward, per row, of work without weights that belongs to it: attention
    """

    inputs: int
    outputs: int
    more_flops: float = 0.0


@dataclass(frozen=True)
class Layer:
    """Parts one after another: chains of products, whose result is added to their input.

    is_residual  False: it is not added
    """

    parts: tuple[tuple[Product, ...], ...]
    is_residual: bool = True

    @property
    def outputs(self) -> int:
        return self.parts[-1][-1].outputs


def mlp(width, hidden, outputs=None) -> Layer:
    """Make a layer of two products, with a residual connection if the width stays the same."""
    outputs = outputs or width
    return Layer(((Product(width, hidden), Product(hidden, outputs)),), outputs == width)


def transformer_layers(shape) -> tuple[Layer, ...]:
    """Return the layers of a Shape of labs/model_shapes.py; the last one computes the scores.

    Raises  ValueError for experts and latent attention, whose operators are not listed here
    """
    if shape.experts or shape.attention_parameters:
        raise ValueError("the operators of experts and of latent attention are not listed here")
    width, queries, wide = shape.width, int(shape.query_width), (1 + shape.is_gated) * shape.mlp
    scores = 2.0 * shape.context * queries  # 4 × context × queries, half of which masks skip
    attention = (
        Product(width, queries + 2 * int(shape.kv_width), scores), Product(queries, width)
    )  # fmt: skip
    block = Layer((attention, (Product(width, wide), Product(shape.mlp, width))))
    return (block,) * shape.layers + (Layer(((Product(width, shape.vocabulary),),), False),)


# ---- Costs ----------------------------------------------------------------------------------


def all_reduce_seconds(nbytes, n, link) -> float:
    return 2 * (n - 1) * (link.latency + nbytes / n / link.bytes_per_second)


def resharding_bytes(nbytes, n, before, after) -> float:
    """Exercise 10.15. Return the bytes that each of n devices sends to reshard.

    Forward and backward together: the activation goes from layout `before` to `after`, and its
    gradient back from `after` to `before`. From "whole", each device takes its part, and sends
    nothing. To "whole" is an all-gather. Between "samples" and "features", each device sends to
    each other device the part that it has and the other one needs.

    nbytes   of the whole activation
    Example  resharding_bytes(800, 4, "samples", "whole") is 600.0
    """
    ...  # your code here


def resharding_seconds(nbytes, n, before, after, link) -> float:
    """Return the seconds of resharding: a message to each other device, per direction that sends.

    Cards that several devices share at a time are not modelled.
    """
    if n == 1 or before == after:
        return 0.0
    directions = 1 if WHOLE in (before, after) else 2
    sent = resharding_bytes(nbytes, n, before, after)
    return directions * (n - 1) * link.latency + sent / link.bytes_per_second


def product_seconds(product, sharding, n, job) -> float:
    """Return a micro-batch's seconds, forward and backward, with its share of the step's sums."""
    link, weights = job.cluster.link(n), product.inputs * product.outputs
    flops = 3 * job.rows * (2 * weights + product.more_flops)
    computing = flops / job.cluster.flops / (1 if sharding == "replicated" else n)
    row = job.rows * job.number_bytes
    travels = {
        "replicated": 0.0,
        "samples": all_reduce_seconds(weights * job.number_bytes, n, link) / job.microbatches,
        "columns": all_reduce_seconds(row * product.inputs, n, link),
        "rows": all_reduce_seconds(row * product.outputs, n, link),
    }
    return computing + travels[sharding]


# ---- The lower level: the sharding of each operator -----------------------------------------


@dataclass(frozen=True)
class Way:
    """One way to compute an operator on a submesh, with the layouts before and after it."""

    name: str
    before: str
    after: str
    seconds: float = 0.0
    nbytes: float = 0.0  # of states on each device


def rules(counts, edges) -> list[tuple[dict, float]]:
    """Exercise 10.16. Return the program's equations: ({variable: factor, …}, their sum).

    Each variable of the integer program is 0 or 1. (u, i) is 1 if operator u takes its way i.
    (u, i, v, j) is 1 if u takes its way i and v takes its way j, for an edge (u, v).

    counts   how many ways each operator has
    edges    pairs (u, v) of operators
    Returns  equations that hold for every choice of one way for each operator, and for nothing else
    Example  ({(0, 0): 1, (0, 1): 1}, 1) is the equation (0, 0) + (0, 1) = 1
    Example  rules([2, 2], [(0, 1)]) has 4 solutions, one for each choice
    """
    ...  # your code here


@cache
def program_of(counts, edges):
    """Make the matrix of the rules, once for equal graphs, and its column for each variable.

    Returns  {variable: column}, and the constraints for scipy's milp
    """
    variables = [(u, i) for u, count in enumerate(counts) for i in range(count)]
    for u, v in edges:
        variables += [(u, i, v, j) for i in range(counts[u]) for j in range(counts[v])]
    number = {variable: k for k, variable in enumerate(variables)}
    equations = rules(list(counts), list(edges))
    entries = [(f, row, number[x]) for row, (of, _) in enumerate(equations) for x, f in of.items()]
    factors, rows, columns = zip(*entries)
    matrix = csr_array((factors, (rows, columns)), shape=(len(equations), len(number)))
    sums = [right for _, right in equations]
    return number, LinearConstraint(matrix, sums, sums)


def choose(seconds, edges) -> list[int]:
    """Choose the cheapest ways, one for each operator, by an integer program.

    seconds  of each operator: a list of its ways' seconds
    edges    {(u, v): matrix}: way i of u and way j of v have matrix[i][j] seconds between them
    """
    counts = tuple(len(of) for of in seconds)
    number, constraints = program_of(counts, tuple(edges))
    costs = np.concatenate([np.ravel(of) for of in (*seconds, *edges.values())])
    unit = costs.max() or 1.0  # the solver's tolerances are made for numbers about 1
    found = milp(costs / unit, integrality=np.ones(len(number)), bounds=Bounds(0, 1),
                 constraints=constraints)  # fmt: skip
    if not found.success:
        raise ValueError(f"the integer program has no solution: {found.message}")
    return [max(range(k), key=lambda i: found.x[number[u, i]]) for u, k in enumerate(counts)]


def ways_of(product, n, job, allowed=ANY) -> list[Way]:
    found = []
    for name in allowed:
        states = product.inputs * product.outputs * job.state_bytes
        nbytes = states / (n if name in MATRICES else 1)
        seconds = product_seconds(product, name, n, job)
        found.append(Way(name, *SHARDINGS[name], seconds, nbytes))
    return found


def graph_of(layers, n, job, entry, leave, allowed=ANY):
    """Build the graph of operators and edges of some layers, between two layouts.

    Returns  a list of each operator's ways, and {(u, v): matrix of resharding seconds}
    """
    operators, edges, link = [[Way(entry, entry, entry)]], {}, job.cluster.link(n)

    def edge(u, v, columns):
        nbytes = job.rows * columns * job.number_bytes
        edges[u, v] = [[resharding_seconds(nbytes, n, a.after, b.before, link)
                        for b in operators[v]] for a in operators[u]]  # fmt: skip

    every = [(layer, part) for layer in layers for part in layer.parts]
    for number, (layer, part) in enumerate(every, 1):  # one layer may be there several times
        start = len(operators) - 1
        for k, each in enumerate(part):
            operators.append(ways_of(each, n, job, allowed))
            edge(start + k, start + k + 1, each.inputs)
        operators.append([Way(x, x, x) for x in ([leave] if number == len(every) else LAYOUTS)])
        edge(start + len(part), start + len(part) + 1, part[-1].outputs)
        if layer.is_residual:
            edge(start, start + len(part) + 1, part[0].inputs)
    return operators, edges


def solve(layers, n, job, entry=SAMPLES, leave=SAMPLES, allowed=ANY):
    """Find the cheapest ways of some layers on n devices; return seconds, bytes and names."""
    operators, edges = graph_of(layers, n, job, entry, leave, allowed)
    chosen = choose([[way.seconds for way in ways] for ways in operators], edges)
    ways = [ways[i] for ways, i in zip(operators, chosen)]
    seconds = sum(way.seconds for way in ways)
    seconds += sum(matrix[chosen[u]][chosen[v]] for (u, v), matrix in edges.items())
    return seconds, sum(way.nbytes for way in ways), tuple(way.name for way in ways[1:])


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    cluster = Cluster(2, 4, 1e12, Link(5e-6, 100e9), Link(20e-6, 5e9))
    for rows in (16, 65536):
        seconds, _, names = solve([mlp(4096, 16384)], 4, Job(cluster, rows, 8))
        print(f"{rows} rows on 4 devices: {1e3 * seconds:.3f} ms, {', '.join(names)}")


if __name__ == "__main__":
    main()
