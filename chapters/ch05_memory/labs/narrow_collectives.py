"""Weights gathered and gradients summed with 8 bits per number on the wire.

python labs/narrow_collectives.py
"""

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from narrow_formats import E4M3, MXFP8, round_to
from simple_ddp import share_of_rank
from torch import Tensor

WIDTH, LAYERS, SAMPLES = 64, 2, 4

# ---- Which collectives take a dtype ---------------------------------------------------------


def try_collectives(dtype) -> dict[str, str]:
    """Call collectives with tensors of a dtype; return {name: "works" or the error's message}."""
    n = dist.get_world_size()
    make = lambda: torch.ones(n).to(dtype)  # noqa: E731
    calls = {
        "all_reduce": lambda: dist.all_reduce(make()),
        "broadcast": lambda: dist.broadcast(make(), 0),
        "all_gather": lambda: dist.all_gather([make() for _ in range(n)], make()),
        "all_to_all": lambda: dist.all_to_all_single(make(), make()),
        "all_gather, bytes": lambda: dist.all_gather(
            [make().view(torch.uint8) for _ in range(n)], make().view(torch.uint8)
        ),
    }
    return {name: run_call(call) for name, call in calls.items()}


def run_call(call) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "works"


# ---- Bytes of any tensor --------------------------------------------------------------------


def gather_bytes(x: Tensor, group=None) -> list[Tensor]:
    """Return the tensors of all ranks, sent as bytes, because Gloo takes no float8.

    Cost  an all-gather of x.nbytes
    """
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather([part.view(torch.uint8) for part in parts], x.view(torch.uint8), group=group)
    return parts


def exchange_bytes(x: Tensor, group=None) -> Tensor:
    """Give row k of x to rank k, sent as bytes; return the rows for this rank, in rank order."""
    received = torch.empty_like(x)
    dist.all_to_all_single(received.view(torch.uint8), x.view(torch.uint8), group=group)
    return received


# ---- Weights --------------------------------------------------------------------------------


def gather_in_bfloat16(shard, group=None) -> Tensor:
    return torch.cat(gather_bytes(shard.bfloat16(), group)).float()


def gather_blocks(shard, group=None) -> Tensor:
    """Gather a weight's rows in MXFP8; blocks lie inside rows, so ranks need not agree.

    Shapes  shard: (rows, …, length), the same on all ranks -> (n · rows, …, length), float32
    Equals  MXFP8 of the whole weight
    Cost    an all-gather of a byte per number, and one of a byte per block
    """
    mxfp8 = MXFP8()
    elements, scales = (torch.cat(gather_bytes(x, group)) for x in mxfp8.quantize(shard))
    return mxfp8.dequantize(elements, scales)


WAYS_TO_GATHER = {"bfloat16": gather_in_bfloat16, "MXFP8": gather_blocks}


def measure_gathers(rows=1_024, length=256) -> dict[str, float]:
    """Gather a weight, so many rows of each rank; return how far each way is off, as a share."""
    from pedagogy_lib import measure

    torch.manual_seed(0)
    whole, found = torch.randn(rows * dist.get_world_size(), length), {}
    shard = whole.split(rows)[dist.get_rank()]
    for name, gather in WAYS_TO_GATHER.items():
        with measure(name):
            got = gather(shard)
        found[name] = ((got - whole).norm() / whole.norm()).item()
    return found


# ---- Gradients ------------------------------------------------------------------------------


def sum_in_bfloat16(x, group=None) -> Tensor:
    """Sum row k of all ranks' x on rank k: bfloat16 on the wire, sums in float32.

    A rank's own row does not travel, so it is added as it is.

    Shapes  x: (ranks, length) -> (length,)
    """
    return add_own_row(exchange_bytes(x.bfloat16(), group).float(), x, group)


def sum_blocks(x, group=None) -> Tensor:
    """Do the same with MXFP8 on the wire: every number is rounded once, before it travels."""
    mxfp8 = MXFP8()
    arrived = mxfp8.dequantize(*(exchange_bytes(part, group) for part in mxfp8.quantize(x)))
    return add_own_row(arrived, x, group)


def add_own_row(arrived, x, group=None) -> Tensor:
    """Sum what has arrived, with this rank's own row as it was before it was rounded."""
    rank = dist.get_rank(group)
    arrived[rank] = x[rank]
    return arrived.sum(0)


def sum_in_ring(x, group=None) -> Tensor:
    """Do the same with a ring, in which each rank adds its row, and rounds the sum again."""
    rank, n, mxfp8 = dist.get_rank(group), dist.get_world_size(group), MXFP8()
    total = x[(rank - 1) % n]
    for hop in range(2, n + 1):
        arrived = [pass_on(part, rank, n, group) for part in mxfp8.quantize(total)]
        total = mxfp8.dequantize(*arrived) + x[(rank - hop) % n]
    return total


def pass_on(part, rank, n, group) -> Tensor:
    """Send a tensor to the next rank; return the one of the previous rank."""
    arrived = torch.empty_like(part)
    calls = [dist.P2POp(dist.isend, part.view(torch.uint8), group=group, group_peer=(rank + 1) % n),
             dist.P2POp(dist.irecv, arrived.view(torch.uint8), group=group,
                        group_peer=(rank - 1) % n)]  # fmt: skip
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return arrived


WAYS_TO_SUM = {
    "bfloat16, exchanged, summed in float32": sum_in_bfloat16,
    "MXFP8, exchanged, summed in float32": sum_blocks,
    "MXFP8, a ring that rounds each sum": sum_in_ring,
}


def train_weights(text, steps, rate=3e-3) -> list[Tensor]:
    """Train a transformer on one rank; return its weights."""
    torch.manual_seed(0)
    model = Transformer(WIDTH, LAYERS)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        inputs, targets = draw_batch(text, 4 * SAMPLES, 1 + step)
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def gradient_of_rank(text, weights=None) -> Tensor:
    """Return the gradient of a transformer on this rank's share of a batch: (ranks, length).

    weights  those of `train_weights`; without, the model is a new one
    """
    torch.manual_seed(0)
    model, n = Transformer(WIDTH, LAYERS), dist.get_world_size()
    for p, weight in zip(model.parameters(), weights or []):
        p.data.copy_(weight)
    inputs, targets = share_of_rank(draw_batch(text, SAMPLES * n, 0))
    mean_loss(model(inputs), targets).backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    return torch.nn.functional.pad(flat, (0, -len(flat) % n)).view(n, -1)


def measure_sums(text, weights) -> dict[str, dict[str, float]]:
    """Sum gradients in each way; return {gradients: {way: its distance from float64, a share}}.

    The gradients are those of a model with these weights, those of a new model, and noise, of which
    each rank draws its own. Sums of the first are measured.
    """
    from pedagogy_lib import measure

    trained, new = gradient_of_rank(text, weights), gradient_of_rank(text)
    chance = torch.Generator().manual_seed(dist.get_rank())
    noise = torch.randn(trained.shape, generator=chance, device="cpu").to(trained.device)
    found = {kind: {} for kind in ("noise", "a new model", "a trained model")}
    for name, add in WAYS_TO_SUM.items():
        with measure(name):
            got = add(trained)
        found["a trained model"][name] = distance(got, trained)
        for kind, x in (("noise", noise), ("a new model", new)):
            found[kind][name] = distance(add(x), x)
    return found


def distance(got, x) -> float:
    """Return how far the ranks' sums are from sums in float64, as a share of their length."""
    exact = exchange_bytes(x).double().sum(0)
    squares = torch.stack([(got - exact).square().sum(), exact.square().sum()])
    dist.all_reduce(squares)
    return (squares[0] / squares[1]).sqrt().item()


def count_up(ones, numbers=E4M3) -> float:
    """Add 1 so often, and round each sum to a format."""
    total = torch.zeros(())
    for _ in range(ones):
        total = round_to(total + 1, numbers)
    return total.item()


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(50_000)
    gathered = launch(measure_gathers, world_size=4, device="cpu")
    weights = launch(train_weights, text, 50, world_size=1, device="cpu").values[0]
    summed = launch(measure_sums, text, weights, world_size=4, device="cpu")
    for run, shares in ((gathered, gathered.values[0]),
                        (summed, summed.values[0]["a trained model"])):  # fmt: skip
        for name, off in shares.items():
            print(f"{name}: off by {off:.2%}, {run[name].sent_bytes[0]:,} bytes sent")


if __name__ == "__main__":
    main()
