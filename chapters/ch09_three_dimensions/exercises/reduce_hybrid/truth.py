"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Wrong

from ..shared.meshes import lists_along
from .cases import SHAPES, gradient_of


def length_of(n) -> int:
    """Return the length of the flat tensor with its padding."""
    total = sum(torch.Size(shape).numel() for shape in SHAPES.values())
    return total + -total % n


def flat_of(rank, backward, n) -> torch.Tensor:
    parts = [
        torch.zeros(shape, dtype=torch.float64) if of is None else of
        for name, shape in SHAPES.items()
        for of in [gradient_of(name, rank, backward)]
    ]
    flat = torch.cat([part.reshape(-1) for part in parts])
    return torch.cat([flat, flat.new_zeros(length_of(n) - len(flat))])


def chunk(trial, place, ranks, divide_by, backwards=None) -> torch.Tensor:
    sizes, all_of_them = trial.case.args
    inside = next(r for r in lists_along("shard", sizes) if place in r)
    n, number = len(inside), inside.index(place)
    times = range(all_of_them) if backwards is None else backwards
    total = sum(flat_of(rank, backward, n) for rank in ranks for backward in times)
    return total.chunk(n)[number] / divide_by


def find_unit_ranks(trial, place) -> list[int]:
    """Return the ranks that have the same unit: all but those that differ on another axis."""
    lists = lists_along(("replicate", "shard"), trial.case.args[0])
    return next(ranks for ranks in lists if place in ranks)


def mean(trial, place):
    ranks = find_unit_ranks(trial, place)
    return chunk(trial, place, ranks, len(ranks))


def mistakes(trial, place):
    sizes, backwards = trial.case.args
    inside = next(r for r in lists_along("shard", sizes) if place in r)
    across = next(r for r in lists_along("replicate", sizes) if place in r)
    ranks = find_unit_ranks(trial, place)
    n = len(ranks)
    found = {
        "this is the mean over the unit's own group: the other groups have seen other samples, and "
        "belong to the mean": chunk(trial, place, inside, len(inside)),
        "the means of the groups are added up: divide by the number of groups":
            chunk(trial, place, ranks, len(inside)),
        "this is divided once too often: reduce_gradients gives a mean already, and only the "
        "number of replicas is left to divide by":
            chunk(trial, place, ranks, n * len(inside)),
        "this is the mean over the replicas alone: the ranks of the unit's own group are missing":
            chunk(trial, place, across, len(across)),
        "this is divided by the number of all ranks of the world: there may be others, with other "
        "parameters. The group tells how many replicas there are":
            chunk(trial, place, ranks, trial.n),
        "this is the last backward alone: where there is a gradient already, they add up":
            chunk(trial, place, ranks, n, [backwards - 1]),
    }  # fmt: skip
    if backwards == 2:
        first = chunk(trial, place, ranks, n, [0])
        found["what was there from the backward before is added up over the replicas again"] = (
            mean(trial, place) + (len(across) - 1) * first
        )
    return found


INSIDE = "inside a reduce-scatter is enough: reduce_gradients makes one"

ACROSS = (
    "across, only this rank's shard is to travel, and not the whole gradient: reduce inside first"
)


def sends_little(trial):
    sizes, backwards = trial.case.args
    n, m = sizes["shard"], sizes["replicate"]
    flat = 8 * length_of(n)
    most = backwards * ((n - 1) * flat / n + 2 * (m - 1) * flat / (n * m))
    for place, calls in enumerate(trial.calls):
        sent = sum(call.sent_bytes for call in calls)
        if sent > most + 1:
            what = (
                f"{trial.name_of_rank(place)} sends {sent:,} bytes; a reduce-scatter inside and an "
            )
            what += f"all-reduce of the shard across {most:,.0f}"
            raise Wrong(f"cost, {trial.case}", f"the numbers are right, but {what}",
                        INSIDE if m == 1 else ACROSS)  # fmt: skip
    return f"cost, {trial.case}: a rank sends {sent:,} bytes" if most else ""
