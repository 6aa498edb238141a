"""Muon where each rank holds some rows of every matrix: four ways to take its step.

torchrun --nproc-per-node 4 labs/muon_on_shards.py
"""

from functools import partial

import matrix_optimizers
import torch
import torch.distributed as dist
import torch.nn.functional as F
from collectives import all_gather_ring
from language_model import Transformer, draw_batch, mean_loss, standard_library
from matrix_optimizers import split_attention
from simple_ddp import share_of_rank
from torch import Tensor
from whole_tensors import largest_first
from zero import Unit, reduce_gradients

from pedagogy_lib.basics.errors import need

# FSDP2 is imported where it is used, as importing it takes seconds in each new process.

ROUNDS, MOMENTUM = 5, 0.95

# ---- One matrix -----------------------------------------------------------------------------


def orthogonalize(matrix: Tensor) -> Tensor:
    """Bring all singular values of a matrix near to 1, as in part 05h, on its shorter side.

    Rows of zeros stay zeros and change nothing else, so a shard may be padded with them.
    """
    if len(matrix) <= matrix.shape[1]:
        return matrix_optimizers.orthogonalize(matrix, ROUNDS)
    return matrix_optimizers.orthogonalize(matrix.T, ROUNDS).T.contiguous()


def flops_of(rows, columns) -> int:
    """Return the FLOPs of `orthogonalize`: three products of matrices in each round."""
    short, long = sorted((rows, columns))
    return ROUNDS * (4 * long * short**2 + 2 * short**3)


# ---- Four ways ------------------------------------------------------------------------------
#
# Each takes `shards`, this rank's rows of every matrix in float32, float64 or bfloat16, and returns
# the same rows of the orthogonal matrices. All ranks have equally many rows of a matrix, and the
# same matrices in the same order: see `pad_rows`.


def stay_blockwise(shards, group=None) -> list[Tensor]:
    """Treat this rank's rows as if they were whole matrices. Cost: no message."""
    return [orthogonalize(shard) for shard in shards]


def duplicate(shards, group=None) -> list[Tensor]:
    """Gather every matrix on every rank, and let every rank do all the work.

    Equals  orthogonalize(the whole matrix)
    Cost    a rank sends (n-1)/n of the matrices' bytes
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    found = []
    for shard in shards:
        shard = shard.contiguous()
        pieces = [torch.empty_like(shard) for _ in range(n)]
        dist.all_gather(pieces, shard, group=group)
        found.append(orthogonalize(torch.cat(pieces)).chunk(n)[rank])
    return found


def orthogonalize_by_owner(shards, owners, group=None) -> list[Tensor]:
    """Exercise {{orthogonalize_by_owner}}. Let one rank orthogonalize each matrix.

    Matrix k is gathered on rank owners[k] of the group alone, which sends each rank its rows of the
    result. All gathers come first, then all computing, then all scatters, because owners would
    otherwise wait for each other.

    shards   this rank's rows of each matrix, contiguous, in the ranks' order; they do not change
    owners   the owner of each matrix, the same list on all ranks
    Returns  this rank's rows of each orthogonal matrix, which keep no whole matrix in memory
    Equals   orthogonalize(the whole matrix)
    Cost     two messages per matrix and rank; a rank sends (n-1)/n of its shards, and (n-1)/n of
             the matrices that it owns
    """
    ### BEGIN SOLUTION
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    matrices = {}
    for k, (shard, owner) in enumerate(zip(shards, owners)):
        pieces = [torch.empty_like(shard) for _ in range(n)] if rank == owner else None
        dist.gather(shard, pieces, group=group, group_dst=owner)
        if rank == owner:
            matrices[k] = torch.cat(pieces)
    finished = {k: orthogonalize(matrix) for k, matrix in matrices.items()}
    found = [torch.empty_like(shard) for shard in shards]
    for k, (mine, owner) in enumerate(zip(found, owners)):
        pieces = list(finished[k].chunk(n)) if rank == owner else None
        dist.scatter(mine, pieces, group=group, group_src=owner)
    return found
    ### END SOLUTION


def share_by_owner(shards, group=None) -> list[Tensor]:
    """Deal the matrices out by their FLOPs, and call `orthogonalize_by_owner`."""
    n = dist.get_world_size(group)
    costs = [flops_of(n * len(shard), shard.shape[1]) for shard in shards]
    shards = [shard.contiguous() for shard in shards]
    return orthogonalize_by_owner(shards, largest_first(costs, n), group)


def sum_grams(shards, group=None) -> list[Tensor]:
    """Run the iteration on this rank's rows, with a sum over the ranks in each round.

    If X has rows on several ranks, then X.T @ X is the sum of their own such products, and so is
    the squared norm. So no rank ever needs the matrix.

    Equals  orthogonalize(the whole matrix), up to rounding
    Cost    an all-reduce of columns**2 numbers in each round, for each matrix
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    found = []
    for shard in shards:
        square = shard.square().sum(dtype=torch.promote_types(shard.dtype, torch.float32))
        dist.all_reduce(square, group=group)
        x = shard / (square.sqrt() + 1e-7).to(shard.dtype)
        for _ in range(ROUNDS):
            gram = x.T @ x
            dist.all_reduce(gram, group=group)
            x = a * x + x @ (b * gram + c * gram @ gram)
        found.append(x)
    return found


WAYS = {
    "blockwise": stay_blockwise,
    "duplicated": duplicate,
    "by owner": share_by_owner,
    "summed Grams": sum_grams,
}


def sent_by_formula(way, shapes, n) -> float:
    """Return the numbers that a rank sends in a step, averaged over the ranks; all are equal."""
    numbers = sum(rows * columns for rows, columns in shapes)
    return {
        "blockwise": 0.0,
        "duplicated": (n - 1) / n * numbers,
        "by owner": 2 * (n - 1) / n * numbers / n,
        "summed Grams": 2 * (n - 1) / n * sum(ROUNDS * columns**2 + 1 for _, columns in shapes),
    }[way]


def flops_by_formula(way, shapes, n) -> float:
    """Return the FLOPs of the busiest rank in a step."""
    costs = [flops_of(rows, columns) for rows, columns in shapes]
    owners = largest_first(costs, n)
    loads = [sum(c for c, owner in zip(costs, owners) if owner == rank) for rank in range(n)]
    return {
        "blockwise": sum(flops_of(rows // n, columns) for rows, columns in shapes),
        "duplicated": sum(costs),
        "by owner": max(loads),
        "summed Grams": sum(
            ROUNDS * (4 * rows // n * columns**2 + 2 * columns**3) for rows, columns in shapes
        ),
    }[way]


# ---- Optimizers -----------------------------------------------------------------------------


class Muon:
    """Muon in the dtype of its matrices.

    It steps as torch.optim.Muon(matrices, lr=rate, weight_decay=0.0) does, which rounds the
    iteration to bfloat16.
    """

    def __init__(self, matrices, rate, momentum=MOMENTUM):
        self.matrices, self.rate, self.momentum = list(matrices), rate, momentum
        self.speeds = [torch.zeros_like(local_part(p)) for p in self.matrices]

    @torch.no_grad()
    def step(self):
        aims = []
        for p, speed in zip(self.matrices, self.speeds):
            gradient = local_part(p.grad)
            speed.lerp_(gradient, 1 - self.momentum)
            aims.append(gradient.lerp(speed, self.momentum))  # Nesterov
        for p, direction in zip(self.matrices, self.find_directions(aims)):
            mine = local_part(p)
            mine -= self.rate * direction

    def find_directions(self, aims) -> list[Tensor]:
        return [scale_of(*aim.shape) * orthogonalize(aim) for aim in aims]

    def zero_grad(self):
        for p in self.matrices:
            p.grad = None


class ShardedMuon(Muon):
    """Muon on DTensors that FSDP2 has cut by rows; blockwise, it takes other steps than Muon.

    A direction is scaled by the shape of what was treated as a matrix: blockwise, by the shape of
    this rank's rows.

    way     one of WAYS
    Raises  CourseError, if a matrix is not cut by rows over a mesh of one dimension
    """

    def __init__(self, matrices, rate, way, momentum=MOMENTUM):
        super().__init__(matrices, rate, momentum)
        self.way, self.group = way, group_of_rows(self.matrices)

    def find_directions(self, aims):
        n = dist.get_world_size(self.group)
        rows = [-(-len(p) // n) for p in self.matrices]
        padded = [pad_rows(aim, count) for aim, count in zip(aims, rows)]
        found = WAYS[self.way](padded, group=self.group)
        treated = aims if self.way == "blockwise" else self.matrices
        triples = zip(treated, aims, found)
        return [scale_of(*m.shape) * direction[: len(aim)] for m, aim, direction in triples]


def group_of_rows(matrices):
    """Return the group of the ranks that have the matrices' rows."""
    meshes = {p.device_mesh for p in matrices}
    is_cut = all(len(p.placements) == 1 and p.placements[0].is_shard(0) for p in matrices)
    sentence = ("ShardedMuon takes matrices that are cut by rows over one mesh of one dimension, "
                "without replicas (HSDP) or tensor parallelism")  # fmt: skip
    need(len(meshes) == 1 and is_cut, sentence)
    return meshes.pop().get_group()


def pad_rows(shard: Tensor, rows: int) -> Tensor:
    """Add rows of zeros, as the last ranks may have fewer rows than the first, or none."""
    return F.pad(shard, (0, 0, 0, rows - len(shard)))


def local_part(x: Tensor) -> Tensor:
    """Return this rank's part of a DTensor, or a plain tensor as it is."""
    return x.to_local() if hasattr(x, "to_local") else x


def scale_of(rows, columns) -> float:
    """Return the factor by which PyTorch's Muon adapts the rate to a shape."""
    return max(1.0, rows / columns) ** 0.5


def sort_parameters(model) -> tuple[list, list]:
    """Return the matrices of the blocks, and all other parameters."""
    inside = {p for p in model.blocks.parameters() if p.dim() == 2}
    matrices = [p for p in model.parameters() if p in inside]
    return matrices, [p for p in model.parameters() if p not in inside]


class FlatMuon:
    """Muon with stage 1 of ZeRO, on a flat vector that is cut wherever it falls.

    The momentum is kept in shards, as it needs no other number. For the step it is gathered, and a
    rank orthogonalizes the matrices of which it has a part.

    A step is that of Muon and of make_adam([all other parameters]), with the mean gradients.

    Cost    a step: 3(n-1)/n of the matrices, 2(n-1)/n of the others
    Source  Liu et al. 2025, https://arxiv.org/abs/2502.16982
    """

    def __init__(self, model, rate, make_adam, momentum=MOMENTUM):
        matrices, others = sort_parameters(model)
        self.matrices, self.others = Unit(matrices), Unit(others)
        self.rate, self.momentum = rate, momentum
        self.speed = torch.zeros_like(self.matrices.shard)
        self.adam = make_adam([self.others.shard])

    @torch.no_grad()
    def step(self):
        for unit in (self.matrices, self.others):
            reduce_gradients(unit)
        self.adam.step()
        self.step_matrices(self.matrices)
        for unit in (self.matrices, self.others):
            unit.shard.grad = None
            all_gather_ring(unit.chunks)

    def step_matrices(self, unit):
        gradient = unit.shard.grad
        self.speed.lerp_(gradient, 1 - self.momentum)
        aim = torch.zeros_like(unit.flat)
        aim.chunk(unit.n)[unit.rank].copy_(gradient.lerp(self.speed, self.momentum))
        all_gather_ring(list(aim.chunk(unit.n)))
        parts, mine = aim[: sum(unit.sizes)].split(unit.sizes), touched_by(unit.rank, unit)
        for part, shape, needed in zip(parts, unit.shapes, mine):
            if needed:
                part.copy_(scale_of(*shape) * orthogonalize(part.view(shape)).flatten())
        unit.shard -= self.rate * aim.chunk(unit.n)[unit.rank]


def touched_by(rank, unit) -> list[bool]:
    """Return, for each parameter of a unit, whether a part of it lies in this rank's shard."""
    each, found, begin = len(unit.shard), [], 0
    for size in unit.sizes:
        found.append(begin < (rank + 1) * each and begin + size > rank * each)
        begin += size
    return found


# ---- The program ----------------------------------------------------------------------------


def train(text, steps=30, rate=0.02) -> tuple[float, float]:
    """Train a small transformer with FlatMuon; return the first and the last loss."""
    torch.manual_seed(0)
    model, losses = split_attention(Transformer(32, 2)), []
    optimizer = FlatMuon(model, rate, partial(torch.optim.Adam, lr=1e-2))
    for step in range(steps):
        inputs, targets = share_of_rank(draw_batch(text, 16, step))
        loss = mean_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(train, standard_library(50_000), world_size=4)
    if run.rank == 0:
        first, last = run.values[0]
        print(f"Muon on a flat vector, {run.world_size} ranks: loss {first:.2f} to {last:.2f}")


if __name__ == "__main__":
    main()
