"""Muon's direction by rows on several ranks, next to that of the whole matrix on one."""

from functools import partial

import torch
import torch.distributed as dist
from helpers import load_solved_lab
from layer_conditions import OF_GROUPS, lines_of_ranks
from twins import EQUAL, Excluded, Twin

MUON = load_solved_lab("muon_on_shards")
DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "bfloat16")}
SHAPES = {  # rows and columns of a rank's shard
    "one column": [(3, 1)],
    "one row": [(1, 4)],
    "one number": [(1, 1)],
    "tall": [(9, 2)],
    "wide": [(2, 11)],
    "one matrix": [(3, 4)],
    "no matrix": [],
    "no row": [(0, 4), (2, 3)],
}
VALUES = {"zeros": 0.0, "tiny": 1e-30, "huge": 1e30}
CONDITIONS = dict.fromkeys(
    (*DTYPES, *SHAPES, *VALUES, "a row of zeros", "equal rows", "not a number", "transposed",
     *OF_GROUPS), EQUAL
)  # fmt: skip


def make_matrices(condition, n, chance) -> list[torch.Tensor]:
    """Return whole matrices, the same on all ranks of a group."""
    matrices = []
    for rows, columns in SHAPES.get(condition, [(2, 3), (4, 4), (1, 5)]):
        matrix = torch.randn(n * rows, columns, generator=chance, dtype=torch.float64)
        matrices.append((matrix * VALUES.get(condition, 1)).to(DTYPES.get(condition, matrix.dtype)))
    if condition == "a row of zeros":
        matrices[0][-1] = 0
    if condition == "equal rows":
        matrices[0][:] = matrices[0][0].clone()
    if condition == "not a number":
        matrices[0][0, 0] = torch.nan
    return matrices


def prepare(function, condition):
    lines = lines_of_ranks(condition)
    groups = [dist.new_group(line) for line in lines]
    mine = next(k for k, group in enumerate(groups) if dist.get_rank(group) >= 0)
    group = groups[mine]
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    matrices = make_matrices(condition, n, torch.Generator().manual_seed(mine))
    shards = [matrix.chunk(n)[rank].clone() if len(matrix) else matrix.clone()
              for matrix in matrices]  # fmt: skip
    if condition == "transposed":
        shards = [shard.T.contiguous().T for shard in shards]

    def rows(dtype=None):
        whole = [MUON.orthogonalize(matrix.to(dtype or matrix.dtype)) for matrix in matrices]
        return [x.chunk(n)[rank] if len(x) else x for x in whole]

    ours = partial(function, shards, group)
    if condition in ("float32", "bfloat16"):  # rounded in another order
        return ours, rows, partial(rows, torch.float64)
    return ours, rows


def by_owner(shards, group):
    n = dist.get_world_size(group)
    owners = [(3 * k + 1) % n for k in range(len(shards))]
    return MUON.orthogonalize_by_owner(shards, owners, group)


TWINS = [
    Twin("muon_on_shards.duplicate", CONDITIONS, partial(prepare, MUON.duplicate)),
    Twin("muon_on_shards.orthogonalize_by_owner",
         CONDITIONS | {"transposed": Excluded("contiguous")}, partial(prepare, by_owner)),
    Twin("muon_on_shards.sum_grams", CONDITIONS, partial(prepare, MUON.sum_grams)),
]  # fmt: skip
