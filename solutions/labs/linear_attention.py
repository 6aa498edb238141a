# Built from chapters/ch09_three_dimensions/labs/linear_attention.py by `make build`.
"""Linear attention: each rank has a piece of the text, and gathers one small state per piece.

torchrun --nproc-per-node 4 labs/linear_attention.py
"""

import torch
import torch.distributed as dist
from long_contexts import PLACES, AllGather, contiguous_places

# Queries, keys and values are (samples, heads, places, size), as in long_contexts.


def attend_linearly(q, k, v):
    """Sum the values of all keys that are not later, each times the query's product with its key.

    With no softmax, nothing is normalised. All scores are computed here; kernels cut them up.
    """
    return (q @ k.transpose(-1, -2)).tril() @ v


def attend_to_states(q, k, v, group=None):
    """Compute linear attention for this rank's piece of the text: rank r has the r-th in a row.

    Equals  attend_linearly of the whole text; pieces may differ in length
    Cost    one all-gather of a (size, size) state per head, whatever the length of the text
    Source  Sun et al. 2025, "LASP-2"
    """
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    state = k.transpose(-1, -2) @ v  # (samples, heads, size, size)
    states = AllGather.apply(state, group).unflatten(PLACES, (n, -1))
    before = states[:, :, :rank].sum(PLACES)
    return q @ before + attend_linearly(q, k, v)


def compare_linear_attention(layout, context, sizes=(16, 16), samples=1, heads=4) -> float:
    """Compare this rank's outputs and gradients with one process, in float64; "states" is measured.

    layout   gives the places of each rank: see contiguous_places
    sizes    of keys and queries, and of values
    Returns  the largest relative difference
    """
    from pedagogy_lib import measure, relative_gap

    mine = layout(context, dist.get_world_size())[dist.get_rank()]
    chance = torch.Generator(device="cpu").manual_seed(0)  # the same text on every rank
    whole = [
        torch.randn(samples, heads, context, size, generator=chance, dtype=torch.float64)
        for size in (sizes[0], *sizes, sizes[1])
    ]
    *tensors, slope = [x[:, :, mine].requires_grad_(number < 3) for number, x in enumerate(whole)]
    with measure("states"):
        out = attend_to_states(*tensors)
    ours = [out, *torch.autograd.grad(out, tensors, slope)]
    *tensors, slope = [x.requires_grad_(number < 3) for number, x in enumerate(whole)]
    out = attend_linearly(*tensors)
    alone = [out, *torch.autograd.grad(out, tensors, slope)]
    return max(relative_gap(a, b[:, :, mine]) for a, b in zip(ours, alone))


def main():
    from pedagogy_lib import launch

    run = launch(compare_linear_attention, contiguous_places, 96, world_size=4)
    if run.rank == 0:
        print(f"{len(run.values)} ranks: equal to one process to 1e-12: {max(run.values) < 1e-12}")


if __name__ == "__main__":
    main()
