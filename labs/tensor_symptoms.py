# Built from chapters/ch07_tensor_parallel/labs/tensor_symptoms.py by `make build`.
"""The symptoms of mistakes in tensor parallelism, found by comparing with one process.

torchrun --nproc-per-node 2 labs/tensor_symptoms.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from llama import rotate
from tensor_parallel import cut
from torch import nn

from pedagogy_lib import close, relative_gap

# Each check runs on a rank, and gets the function or class under test.


def draw_tensors(*shapes):
    """Return random float64 tensors of these shapes, the same on all ranks."""
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def check_mlp(split_mlp) -> float:
    """Return how far split_mlp(x, a, b) is from GELU(X A) B, relative to it."""
    x, a, b = draw_tensors((32, 16), (16, 64), (64, 16))
    wanted = F.gelu(x @ a) @ b
    return ((split_mlp(x, a, b) - wanted).norm() / wanted.norm()).item()


def check_row_layer(row_layer) -> dict[str, str]:
    """Report the errors of row_layer(x, weight, bias) and of its bias's gradient."""
    x, weight, bias, slope = draw_tensors((8, 16), (4, 16), (4,), (8, 4))
    wanted = F.linear(x, weight, bias)
    own = bias.clone().requires_grad_()
    y = row_layer(cut(x, 1), cut(weight, 1), own)
    (y * slope).sum().backward()
    return report_gaps(y, wanted, {"bias": (own.grad, slope.sum(0))})


def check_residual_mlp(residual_mlp) -> dict[str, str]:
    """Report the errors of residual_mlp(x, norm, up, down, bias) and of norm and up's gradients."""
    n = dist.get_world_size()
    x, up, down, bias, slope = draw_tensors((8, 16), (8 * n, 16), (16, 8 * n), (16,), (8, 16))
    norms = [nn.LayerNorm(16, dtype=torch.float64) for _ in range(2)]
    whole, own = up.clone().requires_grad_(), cut(up, 0).requires_grad_()
    wanted = x + F.linear(F.gelu(F.linear(norms[0](x), whole)), down) + bias
    y = residual_mlp(x, norms[1], own, cut(down, 1), bias)
    for output in (wanted, y):
        (output * slope).sum().backward()
    of_norm = norms[1].weight.grad, norms[0].weight.grad
    return report_gaps(y, wanted, {"norm.weight": of_norm, "up": (own.grad, cut(whole.grad, 0))})


def check_experts(sum_of_experts) -> dict[str, str]:
    """Report the errors of a sum of ReLU(X A_r) over the ranks, and of this rank's A_r.grad."""
    n = dist.get_world_size()
    x, every, slope = draw_tensors((8, 16), (n, 16, 4), (8, 4))
    own = every[dist.get_rank()].clone().requires_grad_()
    every.requires_grad_()
    wanted = F.relu(x @ every).sum(0)
    y = sum_of_experts.apply(F.relu(x @ own))
    for output in (wanted, y):
        (output * slope).sum().backward()
    return report_gaps(y, wanted, {"its matrix": (own.grad, every.grad[dist.get_rank()])})


def check_piece(attend_from_piece) -> dict[str, str]:
    """Report the errors of attend_from_piece(q, k, v) and of the gradient of this rank's keys."""
    n, rank = dist.get_world_size(), dist.get_rank()
    shape = 2, 2, 8 * n, 16  # samples, heads, places, size
    *inputs, slope = draw_tensors(shape, shape, shape, shape)
    q, k, v = (x.requires_grad_() for x in inputs)
    places = torch.arange(8 * n)
    wanted = F.scaled_dot_product_attention(rotate(q, places), rotate(k, places), v, is_causal=True)
    pieces = [x.detach().chunk(n, 2)[rank].clone().requires_grad_() for x in inputs]
    y = attend_from_piece(*pieces)
    (wanted * slope).sum().backward()
    (y * slope.chunk(n, 2)[rank]).sum().backward()
    of_keys = pieces[1].grad, k.grad.chunk(n, 2)[rank]
    return report_gaps(y, wanted.chunk(n, 2)[rank], {"its keys": of_keys})


def report_gaps(y, wanted, gradients) -> dict[str, str]:
    """Report in words, for the output and each gradient, "right" or how far it is off."""
    pairs = {"output": (y, wanted)} | {f"gradient of {of}": x for of, x in gradients.items()}
    return {what: describe_gap(*pair) for what, pair in pairs.items()}


def describe_gap(got, wanted) -> str:
    if got is None:
        return "None"
    return "right" if close(got, wanted) else f"off by {relative_gap(got, wanted):.0%}"


def rows_of(run) -> list[list[str]]:
    """Return a table's rows: the results of each rank."""
    return [[f"rank {rank}", *found.values()] for rank, found in enumerate(run.values)]


# ---- The program ----------------------------------------------------------------------------


def omit_all_reduce(x, weight, bias):
    """Compute a row-parallel layer whose all-reduce is missing."""
    return F.linear(x, weight) + bias


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(check_row_layer, omit_all_reduce, world_size=2)
    if run.rank == 0:
        for row in rows_of(run):
            print(*row)


if __name__ == "__main__":
    main()
