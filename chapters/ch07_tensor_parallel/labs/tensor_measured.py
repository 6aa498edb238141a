"""Measurements of tensor parallelism: what each cut sends, and whether it equals one process.

torchrun --nproc-per-node 2 labs/tensor_measured.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from collectives import all_gather_ring
from language_model import Block
from pair_films import film_pair
from tensor_parallel import (
    ColumnLinear,
    RowLinear,
    cut,
    parallelize_attention,
    parallelize_mlp,
    part_sizes,
    split_cross_entropy,
    whole,
)
from torch import nn

from pedagogy_lib import close, measure

# ---- One product ----------------------------------------------------------------------------


def tabulate_parts(layer: nn.Linear, x, n) -> list[list[str]]:
    """Return a table's rows: the parts of a layer's matrix A for n ranks, and how they make Y."""
    a = layer.weight.T  # (inputs, outputs)
    columns, rows = a.tensor_split(n, dim=1), a.tensor_split(n, dim=0)
    stored = {dim: layer.weight.tensor_split(n, dim=dim) for dim in (0, 1)}
    assert all(torch.equal(part, of.T) for part, of in zip(columns, stored[0], strict=True))
    assert all(torch.equal(part, of.T) for part, of in zip(rows, stored[1], strict=True))
    joined = torch.cat([x @ part for part in columns], dim=1)
    added = sum(x_part @ part for x_part, part in zip(x.tensor_split(n, dim=1), rows, strict=True))
    return [
        [name, str([*parts[0].shape]), f"dimension {dim}: {[*stored[dim][0].shape]}", how,
         str(close(y, layer(x)))]
        for name, parts, dim, how, y in (("columns", columns, 0, "side by side", joined),
                                         ("rows", rows, 1, "their sum", added))
    ]  # fmt: skip


def two_ways(size) -> dict[str, bool]:
    """Measure Y = XA by columns and by rows on a rank; return which results equal one process's."""
    torch.set_default_dtype(torch.float64)
    x, a = torch.randn(size, size), torch.randn(size, size)  # the same on all ranks
    with measure("columns"):
        columns = x @ cut(a, 1)
    with measure("rows"):
        summand = cut(x, 1) @ cut(a, 0)
        y = summand.clone()
        dist.all_reduce(y)
    wanted = x @ a
    return {"columns": close(columns, cut(wanted, 1)), "one summand": close(summand, wanted),
            "sum": close(y, wanted)}  # fmt: skip


def both_directions(rows, width) -> bool:
    """Measure a layer's forward and backward in each cut on a rank; return whether all are right.

    Blocks  "columns, forward", "columns, backward", "rows, forward" and "rows, backward"
    """
    torch.set_default_dtype(torch.float64)
    layer, right = nn.Linear(width, width), []
    x, slope = torch.randn(2, rows, width).unbind()
    leaf = x.clone().requires_grad_()
    (layer(leaf) * slope).sum().backward()
    for name, kind, dims in (
        ("columns", ColumnLinear, (None, -1)),
        ("rows", RowLinear, (-1, None)),
    ):
        into, out = ((lambda t, d=d: t if d is None else cut(t, d)) for d in dims)
        mine = into(x).clone().requires_grad_()
        with measure(f"{name}, forward"):
            y = kind(layer)(mine)
        with measure(f"{name}, backward"):
            (y * out(slope)).sum().backward()
        right += [close(y, out(layer(x))), close(mine.grad, into(leaf.grad))]
    return all(right)


def row_cut_in_bfloat16(size) -> float:
    """Return how far Y is off, relative to Y, if a row cut's summands are rounded to bfloat16."""
    x, a = torch.randn(2, size, size).bfloat16().unbind()
    y = cut(x, 1) @ cut(a, 0)
    dist.all_reduce(y)
    wanted = x.double() @ a.double()
    return ((y.double() - wanted).norm() / wanted.norm()).item()


def products_of_dtensors(size) -> list[tuple[str, str, str]]:
    """Multiply DTensors in both cuts; return the placements of X, A and Y of each product."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(torch.get_default_device().type, (dist.get_world_size(),))
    x, a = torch.randn(2, size, size, dtype=torch.float64).unbind()
    found = []
    for of_x, of_a in ((Replicate(), Shard(1)), (Shard(1), Shard(0))):
        y = distribute_tensor(x, mesh, [of_x]) @ distribute_tensor(a, mesh, [of_a])
        assert close(y.full_tensor(), x @ a)
        found.append(tuple(map(name_placement, (of_x, of_a, y.placements[0]))))
    return found


def name_placement(placement) -> str:
    """Return `Replicate`, `Shard(0)` or `Partial`, the same text in every version of PyTorch."""
    if placement.is_shard():
        return f"Shard({placement.dim})"
    return "Partial" if placement.is_partial() else "Replicate"


# ---- The pair -------------------------------------------------------------------------------


def film_mlp():
    """Film ColumnLinear, ReLU and RowLinear in whole numbers, forward and backward."""
    torch.manual_seed(1)  # all ranks make the same layers
    up, down = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    for layer in (up, down):
        layer.weight.data = torch.randint(-2, 3, (4, 4)).float()
    x = torch.randint(-2, 3, (2, 4)).float()
    return film_pair(ColumnLinear(up), RowLinear(down), x, F.relu)


def gather_columns(part, sizes):
    """Gather all ranks' columns side by side; parts may differ in length."""
    parts = [part.new_empty(len(part), size) for size in sizes]
    parts[dist.get_rank()].copy_(part)
    all_gather_ring(parts)
    return torch.cat(parts, dim=1)


def matrices(tokens, width):
    """Return X, A and B of an MLP, the same on all ranks."""
    torch.manual_seed(0)
    shapes = (tokens, width), (width, 4 * width), (4 * width, width)
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def three_ways(tokens, width) -> bool:
    """Measure an MLP's forward in three ways on each rank; return whether all give Y."""
    (x, a, b), n = matrices(tokens, width), dist.get_world_size()
    with measure("pair", memory=False):
        pair = F.gelu(x @ cut(a, 1)) @ cut(b, 0)
        dist.all_reduce(pair)
    with measure("gathered", memory=False):
        hidden = gather_columns(F.gelu(x @ cut(a, 1)), part_sizes(a.shape[1], n))
        between = cut(hidden, 1) @ cut(b, 0)
        dist.all_reduce(between)
    with measure("rows first", memory=False):
        hidden = cut(x, 1) @ cut(a, 0)
        dist.all_reduce(hidden)
        rows_first = gather_columns(F.gelu(hidden) @ cut(b, 1), part_sizes(b.shape[1], n))
    return all(close(y, F.gelu(x @ a) @ b) for y in (pair, between, rows_first))


def measure_late_sum(tokens, width) -> float:
    """Return how far Y is off, relative to Y, if GELU comes before the sum."""
    x, a, b = matrices(tokens, width)
    late = F.gelu(cut(x, 1) @ cut(a, 0))
    dist.all_reduce(late)
    wanted = F.gelu(x @ a) @ b
    return ((late @ b - wanted).norm() / wanted.norm()).item()


# ---- A block, and the loss ------------------------------------------------------------------


def split_block(width, heads, kv_heads, context=64, make=Block) -> bool:
    """Measure a split block's forward and backward on each rank; return whether they are right."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    one, split = make(width, heads, kv_heads), make(width, heads, kv_heads)
    split.load_state_dict(one.state_dict())
    parallelize_attention(split.attention)
    parallelize_mlp(split.mlp)
    x, slope = torch.randn(2, 8, context, width).unbind()
    inputs = x.clone().requires_grad_(), x.clone().requires_grad_()
    with measure("forward"):
        y = split(inputs[0])
    with measure("backward"):
        (y * slope).sum().backward()
    wanted = one(inputs[1])
    (wanted * slope).sum().backward()
    pairs = [(y, wanted), (inputs[0].grad, inputs[1].grad)]
    pairs += [(whole(p, of=p.grad), q.grad)
              for p, q in zip(split.parameters(), one.parameters(), strict=True)]  # fmt: skip
    return all(close(a, b) for a, b in pairs)


def two_losses(tokens, vocabulary) -> bool:
    """Measure the loss from split and from gathered logits on a rank; return whether both agree."""
    sizes = part_sizes(vocabulary, dist.get_world_size())
    targets = torch.randint(vocabulary, (tokens,))  # the same on all ranks
    torch.manual_seed(dist.get_rank())
    logits = torch.randn(tokens, sizes[dist.get_rank()], dtype=torch.float64)
    with measure("split"), torch.no_grad():
        loss = split_cross_entropy(logits, targets, vocabulary=vocabulary)
    with measure("gathered"), torch.no_grad():
        wanted = F.cross_entropy(gather_columns(logits, sizes), targets)
    return close(loss, wanted)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(three_ways, 512, 64, world_size=4)
    if run.rank == 0:
        for way in run.labels:
            print(f"{way}: {run[way].sent_bytes[0] / 1e3:.0f} kB sent by a rank")


if __name__ == "__main__":
    main()
