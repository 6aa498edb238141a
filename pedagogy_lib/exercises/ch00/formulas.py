"""Start here: what `check("0.…")` tries, and what `hint` says. Arithmetic alone, without ranks."""

from torch.utils.data import DistributedSampler

from ...basics.units import counted
from ...course.checking import Wrong
from ..kit.answers import attempt

# ---- 0.1: RANK from the node and the local rank ------------------------------------------------

CLUSTERS = [(2, 3), (4, 2), (1, 4), (3, 1), (2, 8)]  # nodes, processes on each


def examine_global_rank(answer):
    for nodes, per_node in CLUSTERS:
        case = f"{counted(nodes, 'node')} with {counted(per_node, 'process')}"
        places = [(node, local) for node in range(nodes) for local in range(per_node)]
        got = [attempt(case, answer, *place, per_node) for place in places]
        for rank, (place, mine) in enumerate(zip(places, got)):
            if mine != rank:
                what = f"process {place[1]} of node {place[0]}: expected {rank}, got {mine!r}"
                raise Wrong(case, what, why_wrong_ranks(answer))
        yield f"{case}: {' '.join(map(str, got))}"


def why_wrong_ranks(answer) -> str:
    """The misconception that gives the same ranks on all clusters: on one, several may."""
    numbers = [(node, local, per_node, nodes)
               for nodes, per_node in CLUSTERS
               for node in range(nodes) for local in range(per_node)]  # fmt: skip
    got = [attempt("", answer, *where[:3]) for where in numbers]
    for why, guess in WRONG_RANKS.items():
        if got == [guess(*where) for where in numbers]:
            return why
    return ""


WRONG_RANKS = {
    "a function gives back what stands behind `return`": lambda *_: None,
    "the same number would be given on several nodes: count on from node to node":
        lambda node, local, per_node, nodes: local,
    "a node has several processes: before those of node 1 there are per_node, not one":
        lambda node, local, per_node, nodes: node + local,
    "this is the number of the node; its processes differ by their local rank":
        lambda node, local, per_node, nodes: node,
    "this is the first rank of the node; its other processes come after it":
        lambda node, local, per_node, nodes: node * per_node,
    "nodes count from 0: before node 0 there is nobody":
        lambda node, local, per_node, nodes: (node + 1) * per_node + local,
    "ranks count from 0: the first process of node 0 has RANK 0":
        lambda node, local, per_node, nodes: node * per_node + local + 1,
    "the two are swapped: RANK counts through all processes of node 0 first, then those of node 1":
        lambda node, local, per_node, nodes: local * per_node + node,
}  # fmt: skip


# ---- 0.2: who takes which sample ---------------------------------------------------------------

DEALS = [(32, 4), (33, 4), (12, 3), (8, 1), (10, 4), (2, 3)]  # samples, ranks


def examine_my_samples(answer):
    for n, ranks in DEALS:
        case = f"{n} samples, {counted(ranks, 'rank')}"
        got = [list_of(case, attempt(case, answer, n, rank, ranks)) for rank in range(ranks)]
        if n % ranks == 0:
            right = [list(DistributedSampler(range(n), ranks, r, shuffle=False))
                     for r in range(ranks)]  # fmt: skip
        else:  # there the sampler repeats some, to be even
            right = [[i for i in range(n) if i % ranks == rank] for rank in range(ranks)]
        for rank, (mine, wanted) in enumerate(zip(got, right)):
            if mine != wanted:
                what = f"rank {rank}: expected {wanted}, got {mine}"
                raise Wrong(case, what, why_wrong_samples(got, n, ranks))
        even = "as DistributedSampler" if n % ranks == 0 else "each of them once"
        yield f"{case}: {even}"


def list_of(case, result) -> list:
    if result is None:
        raise Wrong(case, "it returned None", "the result is what stands behind `return`")
    try:
        return [int(index) for index in result]
    except (TypeError, ValueError):
        raise Wrong(case, f"expected a list of indices, got {result!r}") from None


UNEVEN = "Where `n` does not divide evenly, some ranks take one sample more than others"


def why_wrong_samples(got, n, ranks) -> str:
    everything, taken = list(range(n)), [i for samples in got for i in samples]
    blocks = [everything[n // ranks * r : n // ranks * (r + 1)] for r in range(ranks)]
    sizes = [n // ranks + (r < n % ranks) for r in range(ranks)]
    starts = [sum(sizes[:r]) for r in range(ranks)]
    guesses = {
        "neighbours are on the same rank: each takes a block. Take every world_size-th sample":
            (blocks, [everything[a : a + b] for a, b in zip(starts, sizes)]),
        "all ranks take everything: a rank begins with its own number, and goes on in steps of "
        "world_size": ([everything] * ranks,),
        "all ranks take the same samples: begin with the rank's own number":
            ([everything[::ranks]] * ranks,),
        "the steps have to be as long as there are ranks: go on by world_size":
            ([everything[r::2] for r in range(ranks)],
             [everything[r :: r + 1] for r in range(ranks)]),
        "ranks count from 0: rank 0 begins with sample 0":
            ([everything[r + 1 :: ranks] for r in range(ranks)],),
    }  # fmt: skip
    for why, wrong in guesses.items():
        if got in wrong:
            return why
    if any(not 0 <= i < n for i in taken):
        return f"samples have the numbers from 0 to n - 1, so up to {n - 1} here"
    if len(taken) > len(set(taken)):
        return f"some samples are taken twice. {UNEVEN}"
    if len(taken) < n:
        return f"some samples are lost. {UNEVEN}"
    return "each sample is taken once; but sample i belongs to rank i % world_size, in this order"
