"""Overlap of messages and products: an all-reduce in the backward, an all-gather in the forward.

python labs/async_products.py
"""

import torch
import torch.distributed as dist
from collectives import all_reduce_ring
from data_parallel import make_async
from sequence_parallel import OverlappedProduct
from torch import Tensor

from pedagogy_lib import SlowProducts, close, measure, throttle

ROUNDS = 3

# ---- The backward: an all-reduce overlaps a product -----------------------------------------


def ring(x, group=None):
    with measure("all_reduce", memory=False):
        all_reduce_ring(x, group)


def backward_of(size, seconds) -> None:
    """Run the backward of a column-parallel layer on each rank, without and with overlap.

    Computation is emulated: a product takes `seconds`, and so does a message of the size of x.

    Blocks  "waiting" and "meanwhile", ROUNDS times each
    """
    ways = {"waiting": lambda x, group: ring(x) or (lambda: None), "meanwhile": make_async(ring)}
    x, weight = torch.randn(2, size, size).requires_grad_().unbind()
    with throttle(x.nbytes / seconds):
        all_reduce_ring(torch.ones(4))  # the first messages open the connections
        for label, begin in ROUNDS * list(ways.items()):
            y = OverlappedProduct.apply(x, weight, None, None, begin).sum()
            dist.barrier()
            with SlowProducts(2 * size**3 / seconds), measure(label, memory=False):
                y.backward()


# ---- The forward: an all-gather overlaps products -------------------------------------------


def gather_then_multiply(piece: Tensor, weight: Tensor) -> Tensor:
    """Gather all ranks' pieces along a ring, then multiply all rows by `weight` in one product."""
    pieces = [piece]
    for _ in range(dist.get_world_size() - 1):
        pieces.append(pass_on(pieces[-1])())
    return order_by_rank(pieces) @ weight


def multiply_while_gathering(piece: Tensor, weight: Tensor) -> Tensor:
    """Multiply each piece by `weight` while the next one travels along the ring; return all rows.

    Shapes  piece: (rows / n, inputs), weight: (inputs, outputs) -> (rows, outputs)
    Source  Wang et al. 2023, "Overlap Communication with Dependent Computation via Decomposition"
    """
    products, n = [], dist.get_world_size()
    for step in range(n):
        arrived = pass_on(piece) if step < n - 1 else None
        products.append(piece @ weight)
        piece = arrived() if arrived else piece
    return order_by_rank(products)


def pass_on(piece: Tensor):
    """Begin to send a piece round the ring; return a function that waits for the next one."""
    rank, n = dist.get_rank(), dist.get_world_size()
    incoming = torch.empty_like(piece)
    both = [
        dist.P2POp(dist.isend, piece, (rank + 1) % n),
        dist.P2POp(dist.irecv, incoming, (rank - 1) % n),
    ]
    requests = dist.batch_isend_irecv(both)

    def wait():
        with measure("wait", memory=False):
            for request in requests:
                request.wait()
        return incoming

    return wait


def order_by_rank(found) -> Tensor:
    """Join the results of a ring in rank order; `found[k]` belongs to the rank k places before."""
    rank, n = dist.get_rank(), dist.get_world_size()
    return torch.cat([found[(rank - k) % n] for k in range(n)])


def forward_of(rows, size, seconds) -> bool:
    """Time both ways on each rank; return whether both give the product.

    Computation is emulated: the product of a piece takes `seconds`, and so does its message.

    Blocks  "waiting" and "meanwhile", ROUNDS times each
    """
    n = dist.get_world_size()
    x, weight = torch.randn(rows * n, size), torch.randn(size, size)  # the same on all ranks
    piece, right = x.chunk(n)[dist.get_rank()].contiguous(), []
    ways = {"waiting": gather_then_multiply, "meanwhile": multiply_while_gathering}
    with throttle(piece.nbytes / seconds):
        pass_on(torch.ones(1))()
        for label, way in ROUNDS * list(ways.items()):
            dist.barrier()
            with SlowProducts(2 * rows * size**2 / seconds), measure(label, memory=False):
                y = way(piece, weight)
            right.append(close(y, x @ weight))
    return all(right)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(forward_of, 64, 128, 0.02, world_size=2, device="cpu")
    for label in ("waiting", "meanwhile"):
        print(f"{label}: {1e3 * min(run[label].rounds):.0f} ms")


if __name__ == "__main__":
    main()
