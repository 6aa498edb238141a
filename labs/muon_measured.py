# Built from chapters/ch06_zero/labs/muon_measured.py by `make build`.
"""Muon on shards, measured: against one process, in bytes and FLOPs, and in training.

torchrun --nproc-per-node 3 labs/muon_measured.py
"""

from functools import partial

import matrix_optimizers
import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from matrix_optimizers import split_attention, trained_block
from muon_on_shards import (
    WAYS,
    FlatMuon,
    Muon,
    ShardedMuon,
    flops_by_formula,
    flops_of,
    orthogonalize,
    scale_of,
    sent_by_formula,
    sort_parameters,
    touched_by,
)
from simple_ddp import share_of_rank
from small_states import EightBitRoots, EightBits, SmallAdam
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from trust_ratios import OPTIMIZERS, Layerwise

# FSDP2 is imported where it is used, as importing it takes seconds in each new process.

# ---- Optimizers on rows of a matrix ---------------------------------------------------------


class WholeMuon(Muon):
    """Muon without momentum."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr, momentum=0.0)


def make_small_adam(parameters, lr):
    return SmallAdam(parameters, lr=lr, mean=EightBits(), square=EightBitRoots())


STEPPERS = {
    "SGD": torch.optim.SGD,
    "Adam": torch.optim.Adam,
    "Adam, 8 bits in blocks": make_small_adam,
    "Adafactor": torch.optim.Adafactor,
    "LARS": partial(Layerwise, **OPTIMIZERS["LARS"]),
    "LAMB": partial(Layerwise, **OPTIMIZERS["LAMB"]),
    "Muon": WholeMuon,
}


def changes_on_shards(text, steps=3) -> dict[str, tuple[Tensor, Tensor]]:
    """Take some steps on this rank's rows of a matrix, and on the whole matrix.

    Returns  {optimizer: (this rank's change by steps on its rows alone, the same rows' change by
             steps on the whole)}
    """
    weight = trained_block(text, 19).mlp[0].weight.detach()  # (128, 32)
    gradients = [trained_block(text, 20 + step).mlp[0].weight.grad for step in range(steps)]
    rank, n = dist.get_rank(), dist.get_world_size()
    rows = torch.arange(len(weight)).chunk(n)[rank]
    found = {}
    for name, make in STEPPERS.items():
        own = change_by(make, weight[rows], [g[rows] for g in gradients])
        found[name] = own.cpu(), change_by(make, weight, gradients)[rows].cpu()
    return found


def change_by(make, weight, gradients) -> Tensor:
    """Return how far steps with these gradients move a weight, at rate 0.01."""
    p = nn.Parameter(weight.clone())
    optimizer = make([p], lr=0.01)
    for gradient in gradients:
        p.grad = gradient.clone()
        optimizer.step()
    return (p - weight).detach()


def shares_apart(run) -> dict[str, float]:
    """Return how far the ranks' steps are from those on the whole, as a share of these."""
    found = {}
    for name in STEPPERS:
        own, whole = (torch.cat([of_rank[name][k] for of_rank in run.values]) for k in (0, 1))
        found[name] = ((own - whole).norm() / whole.norm()).item()
    return found


# ---- Four ways ------------------------------------------------------------------------------


def try_way(way, shapes) -> tuple[float, int]:
    """Take the directions of random matrices in one way, measured under its name.

    Returns  the largest distance of this rank's rows from one process's, as a share of the largest
             number, and the FLOPs that this rank has computed
    """
    from pedagogy_lib import measure

    rank, n = dist.get_rank(), dist.get_world_size()
    shards = [matrix.chunk(n)[rank].clone() for matrix in draw_matrices(shapes)]
    with measure(way), FlopCounterMode(display=False) as counter:
        found = WAYS[way](shards)
    wanted = [matrix_optimizers.orthogonalize(matrix).chunk(n)[rank]
              for matrix in draw_matrices(shapes)]  # fmt: skip
    gap = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, wanted))
    return gap, counter.get_total_flops()


def draw_matrices(shapes) -> list[Tensor]:
    chance, device = torch.Generator().manual_seed(0), torch.get_default_device()
    drawn = (torch.randn(shape, generator=chance, dtype=torch.float64, device="cpu")
             for shape in shapes)  # fmt: skip
    return [matrix.to(device) for matrix in drawn]


def rows_of_ways(runs, shapes) -> list[list[str]]:
    """Return a table's rows; runs: {way: its run}.

    Bytes sent are those of the average rank, and FLOPs and bytes in memory those of the rank that
    has most. Bytes are in units of all matrices, FLOPs in units of one process.
    """
    rows, once = [], sum(flops_of(*shape) for shape in shapes)
    whole = 8 * sum(rows * columns for rows, columns in shapes)
    for way, run in runs.items():
        n, gap = run.world_size, max(gap for gap, _ in run.values)
        rows.append([
            way, f"{8 * sent_by_formula(way, shapes, n) / whole:.2f}",
            f"{sum(run[way].sent_bytes) / n / whole:.2f}",
            f"{flops_by_formula(way, shapes, n) / once:.2f}",
            f"{max(flops for _, flops in run.values) / once:.2f}",
            f"{max(peak['total'] for peak in run[way].peak_bytes) / whole:.2f}",
            "none" if gap < 1e-12 else f"{gap:.0%}",
        ])  # fmt: skip
    return rows


def shapes_of(model) -> list[tuple[int, int]]:
    return [tuple(p.shape) for p in sort_parameters(model)[0]]


# ---- Engines against one process ------------------------------------------------------------


def make_model(width=16, layers=2, dtype=torch.float64):
    torch.manual_seed(0)
    return split_attention(Transformer(width, layers)).to(dtype)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, eps=1e-4)  # rounding noise makes no full steps


class Both:
    """An optimizer for the matrices of a model, and Adam for all other parameters."""

    def __init__(self, model, make_muon):
        matrices, others = sort_parameters(model)
        self.both = [make_muon(matrices, 0.02), adam(others)]

    def step(self):
        for optimizer in self.both:
            optimizer.step()


def shard(model):
    from torch.distributed.fsdp import fully_shard

    for unit in (*model.blocks, model):
        fully_shard(unit)
    return model


ENGINES = {
    "one process": lambda model: Both(model, Muon),
    "ZeRO-1, flat": lambda model: FlatMuon(model, 0.02, adam),
    **{f"FSDP2, {way}": lambda model, way=way: Both(shard(model), partial(ShardedMuon, way=way))
       for way in WAYS},
}  # fmt: skip


def train_engine(make, text, steps, share=share_of_rank) -> list[Tensor]:
    """Train a small model in float64 with the share of each batch; return all weights, whole."""
    model = make_model()
    optimizer = make(model)
    for step in range(steps):
        inputs, targets = share(draw_batch(text, 2 * dist.get_world_size(), step))
        model.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return [p.detach() for p in whole]


def gap_of_engine(engine, text, steps=3) -> float:
    """Return the largest distance of an engine's weights from one process's, after some steps.

    engine  a name of ENGINES, or a function that takes matrices and a rate, and makes their
            optimizer under FSDP2
    """
    from pedagogy_lib import relative_gap

    make = ENGINES[engine] if isinstance(engine, str) else (lambda m: Both(shard(m), engine))
    found = train_engine(make, text, steps)
    wanted = train_engine(ENGINES["one process"], text, steps, share=lambda batch: batch)
    return max(relative_gap(a, b) for a, b in zip(found, wanted))


def gaps_of_engines(engines, text) -> list[float]:
    return [gap_of_engine(engine, text) for engine in engines]


def count_flat(text, width=16, layers=2) -> tuple[int, int]:
    """Return how many matrices this rank orthogonalizes with FlatMuon, and how many are cut."""
    unit = FlatMuon(make_model(width, layers), 0.02, adam).matrices
    touched = [touched_by(rank, unit) for rank in range(unit.n)]
    cut = sum(sum(ranks) > 1 for ranks in zip(*touched))
    return sum(touched[unit.rank]), cut


def step_pytorchs(shape) -> tuple[float, float]:
    """Let torch.optim.Muon step on a DTensor that is cut by rows, measured as "step".

    Returns  the distance of its step from a step in float64, as a share of that, and the distance
             of a step of torch.optim.Muon on the whole matrix
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from pedagogy_lib import measure

    device = torch.get_default_device().type
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    chance = torch.Generator().manual_seed(0)
    gradient = torch.randn(shape, generator=chance, device="cpu").to(device)
    right = scale_of(*shape) * orthogonalize(gradient.double())
    found = []
    for cut in (True, False):
        share = (lambda x: distribute_tensor(x, mesh, [Shard(0)])) if cut else (lambda x: x)
        p = nn.Parameter(share(torch.zeros_like(gradient)))
        p.grad = share(gradient)
        muon = torch.optim.Muon([p], lr=1.0, weight_decay=0.0, momentum=0.0, nesterov=False)
        with measure("step" if cut else "whole"):
            muon.step()
        step = -(p.full_tensor() if cut else p).detach().double()
        found.append(((step - right).norm() / right.norm()).item())
    return tuple(found)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for engine in ("ZeRO-1, flat", "FSDP2, by owner"):
        run = launch(gap_of_engine, engine, text, world_size=3)
        if run.rank == 0:
            print(f"{engine}: as one process to 1e-10: {max(run.values) < 1e-10}")


if __name__ == "__main__":
    main()
