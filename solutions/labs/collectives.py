# Built from chapters/ch02_collectives/labs/collectives.py by `make build`.
"""Collectives that are written with nothing but messages from rank to rank.

They work in place, on numbers: pass a parameter as `p.data`, or call them under `torch.no_grad()`.

torchrun --nproc-per-node 4 labs/collectives.py
"""

import torch
import torch.distributed as dist
from torch import Tensor


def send(x: Tensor, peer: int, group=None):
    """Begin to send `x` to member `peer` of the group; return a request with a `.wait()`."""
    __tracebackhide__ = True  # an error is reported at the line that calls this
    return dist.isend(x, group=group, group_dst=peer)


def receive(x: Tensor, peer: int, group=None):
    """Begin to receive a message of member `peer` into `x`; return a request with a `.wait()`."""
    __tracebackhide__ = True
    return dist.irecv(x, group=group, group_src=peer)


def exchange(outgoing: Tensor, to: int, incoming: Tensor, source: int, group=None) -> None:
    """Send to member `to` of the group and receive from member `source` at the same time.

    The two form a batch, in which neither message waits for the other, on Gloo and on NCCL. Single
    messages between two ranks run one after another on NCCL, according to its documentation and
    PyTorch's source: if both ranks send first, each waits for the other.
    """
    __tracebackhide__ = True
    # On Gloo, a sender waits until the receiver reports that it is ready. The report takes the same
    # connection as data, so if the receive began after a send, it would wait behind all its bytes.
    messages = [
        dist.P2POp(dist.irecv, incoming, group=group, group_peer=source),
        dist.P2POp(dist.isend, outgoing, group=group, group_peer=to),
    ]
    for request in dist.batch_isend_irecv(messages):
        request.wait()


def need_contiguous(*tensors):
    """Raise ValueError unless each tensor's numbers follow each other in memory in reading order.

    Such tensors are called contiguous, and isend and irecv take no others. A transposed one is not.
    """
    if not all(x.is_contiguous() for x in tensors):
        raise ValueError(
            "this collective takes contiguous tensors: pass x.contiguous(), and copy the result "
            "back into x"
        )


# ---- Trees ----------------------------------------------------------------------------------


def broadcast_tree(x: Tensor, root: int = 0, group=None) -> None:
    """Exercise 2.5. Copy the root's `x` into every rank's `x`, along a tree.

    Equals  dist.broadcast(x, group_src=root)
    Shapes  x: any, contiguous, the same shape on every rank
    Cost    n-1 messages of x.nbytes, in ceil(log2 n) rounds: in each round, every rank that has x
            sends it to one that does not (such a tree is called binomial)
    """
    need_contiguous(x)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    place = (rank - root) % n  # the root's place is 0; after k rounds, places below 2**k have x
    reach = 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2
    ### END SOLUTION


def reduce_tree(x: Tensor, root: int = 0, group=None) -> None:
    """Exercise 2.6. Add up every rank's `x` into the root's `x`, along a tree.

    Equals  dist.reduce(x, group_dst=root); afterwards, x may hold anything on other ranks
    Shapes  x: any, contiguous, the same shape on every rank
    Cost    n-1 messages of x.nbytes, in ceil(log2 n) rounds; neighbours may form the first pairs
    """
    need_contiguous(x)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    place = (rank - root) % n
    received = torch.empty_like(x)
    reach = 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2
    ### END SOLUTION


# ---- Rings ----------------------------------------------------------------------------------


def reduce_scatter_ring(chunks: list[Tensor], group=None) -> None:
    """Exercise 2.8. Add up all ranks' chunks; rank k gets the sum of chunks k.

    Equals  dist.reduce_scatter(chunks[rank], chunks); the other chunks may hold anything afterwards
    Shapes  chunks: a list of n contiguous tensors, changed in place; chunk k has the same length on
            every rank, others may be longer or shorter; the list keeps its tensors, in their order
    Cost    n-1 messages, all to the next rank; each rank sends all chunks but one
    """
    need_contiguous(*chunks)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    following, previous = (rank + 1) % n, (rank - 1) % n
    for step in range(1, n):
        outgoing, partial = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        received = torch.empty_like(partial)
        exchange(outgoing, following, received, previous, group)
        partial += received
    ### END SOLUTION


def all_gather_ring(chunks: list[Tensor], group=None) -> None:
    """Exercise 2.9. Give all chunks to every rank, where rank k brings chunk k.

    Equals  dist.all_gather(chunks, chunks[rank])
    Shapes  chunks: a list of n contiguous tensors, changed in place; chunk k has the same length on
            every rank, others may be longer or shorter; the list keeps its tensors, in their order
    Cost    n-1 messages, all to the next rank; each rank sends all chunks but one
    """
    need_contiguous(*chunks)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    following, previous = (rank + 1) % n, (rank - 1) % n
    for step in range(1, n):
        outgoing, incoming = chunks[(rank - step + 1) % n], chunks[(rank - step) % n]
        exchange(outgoing, following, incoming, previous, group)
    ### END SOLUTION


def all_reduce_ring(x: Tensor, group=None) -> None:
    """Exercise 2.10. Add up every rank's `x` in place, with only the two neighbours.

    Equals  dist.all_reduce(x)
    Shapes  x: any, contiguous; its length need not be a multiple of n
    Cost    2(n-1) messages, all to one neighbour; each rank sends 2(n-1)/n * x.nbytes
    Source  Patarasuk and Yuan 2009
    """
    need_contiguous(x)
    ### BEGIN SOLUTION
    chunks = list(x.view(-1).tensor_split(dist.get_world_size(group)))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    ### END SOLUTION


# ---- For comparison -------------------------------------------------------------------------


def all_reduce_star(x: Tensor, group=None) -> None:
    """Add up every rank's `x` on rank 0, which is the hot spot, and send the sum back to each.

    Cost  rank 0 sends and receives (n-1) * x.nbytes, every other rank x.nbytes
    """
    need_contiguous(x)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if rank == 0:
        received = torch.empty_like(x)
        for peer in range(1, n):
            receive(received, peer, group).wait()
            x += received
        for peer in range(1, n):
            send(x, peer, group).wait()
    else:
        send(x, 0, group).wait()
        receive(x, 0, group).wait()


def all_reduce_tree(x: Tensor, group=None) -> None:
    """Add up every rank's `x` on rank 0 along a tree, and send the sum back along it."""
    reduce_tree(x, 0, group)
    broadcast_tree(x, 0, group)


# ---- All-to-all -----------------------------------------------------------------------------


def all_to_all(outputs: list[Tensor], inputs: list[Tensor], group=None) -> None:
    """Exercise 2.12. Copy rank i's inputs[j] into rank j's outputs[i].

    Equals  dist.all_to_all(outputs, inputs)
    Shapes  n contiguous tensors in each list; rank j's outputs[i] is as long as rank i's inputs[j];
            both lists keep their tensors, in their order
    Cost    n-1 messages; each rank sends all of its inputs but one
    """
    need_contiguous(*outputs, *inputs)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        exchange(inputs[to], to, outputs[source], source, group)
    ### END SOLUTION


# ---- Many small tensors ---------------------------------------------------------------------


def all_reduce_buckets(tensors: list[Tensor], bucket_bytes: int, group=None) -> None:
    """Exercise 2.15. Add up each of many tensors, a bucket at a time.

    A bucket takes tensors in their order for as long as they fit into bucket_bytes; a tensor that
    is larger has its own bucket. Each bucket is summed by all_reduce_ring. The list of tensors
    stays as it is.

    Equals  dist.all_reduce(x) for each x of the tensors
    Shapes  tensors: any, contiguous, all of one dtype
    Cost    2(n-1) messages per bucket instead of per tensor
    """
    need_contiguous(*tensors)
    if len({x.dtype for x in tensors}) > 1:
        raise ValueError("the tensors have several dtypes: sum those of one dtype in a call")
    ### BEGIN SOLUTION
    buckets, filled = [], 0
    for x in tensors:
        if not buckets or filled + x.nbytes > bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(x)
        filled += x.nbytes
    for bucket in buckets:
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        parts = flat.split([x.numel() for x in bucket])
        for x, part in zip(bucket, parts):
            x.copy_(part.view_as(x))
    ### END SOLUTION


# ---- The program ----------------------------------------------------------------------------

ALL_REDUCES = {
    "star": all_reduce_star,
    "tree": all_reduce_tree,
    "ring": all_reduce_ring,
    "dist.all_reduce": dist.all_reduce,
}


def compare(nbytes: int, ways=ALL_REDUCES, memory=False) -> dict[str, bool]:
    """Measure an all-reduce of `nbytes` in each way; return for each whether the sum is right.

    memory   whether memory and calls are recorded, too, which takes time
    """
    from pedagogy_lib import measure

    n, right = dist.get_world_size(), {}
    for name, all_reduce in ways.items():
        x = torch.full((nbytes // 8,), dist.get_rank() + 1.0, dtype=torch.float64)
        dist.barrier()
        with measure(name, memory=memory):
            all_reduce(x)
        right[name] = bool((x == n * (n + 1) / 2).all())
    return right


def main(nbytes: int = 8_000_000):
    from pedagogy_lib import launch

    run = launch(compare, nbytes)
    if run.rank == 0:
        print(f"all-reduce of {nbytes / 1e6:g} MB on {run.world_size} ranks")
        print(f"{'':16}{'sum':8}{'rank 0 sent':>13}{'most by another':>17}{'time':>10}")
        for name, right in run.values[0].items():
            first, *others = run[name].sent_bytes
            sent = f"{first / 1e6:10.2f} MB{max(others, default=0) / 1e6:14.2f} MB"
            seconds = max(run[name].seconds)
            print(f"{name:16}{'right' if right else 'not yet':8}{sent}{seconds * 1e3:7.1f} ms")
        print("(not yet: wrong, or not written. Ranks of one machine share its cores, not links.)")


if __name__ == "__main__":
    main()
