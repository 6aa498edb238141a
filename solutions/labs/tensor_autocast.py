# Built from chapters/ch07_tensor_parallel/labs/tensor_autocast.py by `make build`.
"""Tensor parallelism under autocast: the dtype of each sum, and the error of the result.

torchrun --nproc-per-node 2 labs/tensor_autocast.py
"""

from collections import Counter
from copy import deepcopy

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from tensor_parallel import parallelize, split_cross_entropy, whole
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

SAMPLES = 8


def gradients_of(model) -> Tensor:
    """Return all gradients of a model, those of split parameters put together again."""
    return torch.cat([whole(p, of=p.grad).flatten() for p in model.parameters()])


class NoteSums(TorchDispatchMode):
    """A count of the all-reduces of activations that are called under it.

    numbers  how many an activation has; smaller sums do not count
    counted  {(phase, bytes per number, share of bfloat16 numbers among those not 0): how many}
    """

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.phase, self.counted = numbers, "", Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if "allreduce" in str(operation):
            (part,) = args[0]
            if part.numel() == self.numbers:
                part = part[part != 0]  # the embedding adds zeros for other ranks' tokens
                share = (part.bfloat16() == part).double().mean().item()
                self.counted[self.phase, part.element_size(), round(share, 2)] += 1
        return operation(*args, **(kwargs or {}))


def step_under(autocast, text, width=32) -> tuple[Counter, Tensor, Tensor, Tensor]:
    """Take a step on all ranks, and the same one in one process.

    Returns  what NoteSums counted on this rank; gradients of the split model, of one process in the
             same precision, and in float32
    """
    torch.manual_seed(0)
    alone, found = Transformer(width, 2), []
    split, (inputs, targets) = parallelize(deepcopy(alone)), draw_batch(text, SAMPLES, 0)
    device = torch.get_default_device().type
    with NoteSums(SAMPLES * 64 * width) as sums:
        sums.phase = "forward"
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = split_cross_entropy(split(inputs), targets)
        sums.phase = "backward"
        loss.backward()
    for enabled in (autocast, False):
        alone.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            loss = mean_loss(alone(inputs), targets)
        loss.backward()
        found.append(torch.cat([p.grad.flatten() for p in alone.parameters()]))
    return sums.counted, gradients_of(split), *found


def error_of(got, wanted) -> float:
    return ((got.double() - wanted.double()).norm() / wanted.double().norm()).item()


def row_product_errors(inside=4096, out=64, samples=64) -> dict[str, float]:
    """Return the relative errors of a product that is split along the dimension it sums over.

    Each rank computes its part in bfloat16, as under autocast. The parts are summed in bfloat16, or
    cast to float32 first.
    """
    n, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    x, weight = torch.randn(samples, inside), torch.randn(inside, out)
    mine = slice(rank * inside // n, (rank + 1) * inside // n)
    part = x[:, mine].bfloat16() @ weight[mine].bfloat16()
    exact = x.bfloat16().double() @ weight.bfloat16().double()
    found = {}
    for name, dtype in (("summed in bfloat16", torch.bfloat16), ("in float32", torch.float32)):
        y = part.to(dtype, copy=True)
        dist.all_reduce(y)
        found[name] = error_of(y, exact)
    return found


# ---- The program ---------------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(5_000)
    for autocast in (False, True):
        run = launch(step_under, autocast, text, world_size=2)
        if run.rank == 0:
            _, split, same, exact = run.values[0]
            print(f"autocast {autocast}: error {error_of(split, exact):.5f} on ranks, "
                  f"{error_of(same, exact):.5f} in one process")  # fmt: skip


if __name__ == "__main__":
    main()
