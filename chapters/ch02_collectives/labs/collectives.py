"""Collectives, each written with nothing but messages from rank to rank.

torchrun --nproc-per-node 4 labs/collectives.py
"""

import torch
import torch.distributed as dist
from torch import Tensor


def send(x: Tensor, peer: int, group=None):
    """Begin to send `x` to member `peer` of the group; `.wait()` for its end."""
    __tracebackhide__ = True  # an error is told at the line that calls this
    return dist.isend(x, group=group, group_dst=peer)


def receive(x: Tensor, peer: int, group=None):
    """Begin to receive into `x` what member `peer` sends; `.wait()` for its end."""
    __tracebackhide__ = True
    return dist.irecv(x, group=group, group_src=peer)


def exchange(outgoing: Tensor, to: int, incoming: Tensor, source: int, group=None) -> None:
    """Send to member `to` of the group, and receive from member `source`, both at the same time.

    A batch: on Gloo and on NCCL neither message waits for the other. On NCCL, single messages
    between two ranks run one after another, say its documentation and PyTorch's source. If both
    ranks send first, each waits for the other.
    """
    __tracebackhide__ = True
    # On Gloo a sender waits until the receiver has said that it is ready. That goes by the
    # connection that data take: begun after a send, it would wait behind all of its bytes.
    messages = [
        dist.P2POp(dist.irecv, incoming, group=group, group_peer=source),
        dist.P2POp(dist.isend, outgoing, group=group, group_peer=to),
    ]
    for request in dist.batch_isend_irecv(messages):
        request.wait()


def need_contiguous(*tensors):
    """Refuse tensors whose numbers do not lie one after another in memory, in the order of reading.

    Such tensors are called contiguous; isend and irecv take no others. A transposed one is not.
    """
    if not all(x.is_contiguous() for x in tensors):
        raise ValueError(
            "this collective takes contiguous tensors: pass x.contiguous(), and copy the result "
            "back into x"
        )


# ---- Trees ----------------------------------------------------------------------------------


def broadcast_tree(x: Tensor, root: int = 0, group=None) -> None:
    """Exercise {{broadcast_tree}}. Copy the root's `x` into everybody's, along a tree.

    Equals  dist.broadcast(x, group_src=root)
    Shapes  x: any, contiguous, the same shape on every rank
    Cost    n-1 messages of x.nbytes, in ceil(log2 n) rounds: in each round, every rank that has x
            sends it to one that has not (such a tree is called binomial)
    """
    need_contiguous(x)
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ### BEGIN SOLUTION
    place = (rank - root) % n  # the root's is 0; after k rounds, places below 2**k have x
    reach = 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2
    ### END SOLUTION


def reduce_tree(x: Tensor, root: int = 0, group=None) -> None:
    """Exercise {{reduce_tree}}. Add up everybody's `x` in the root's, along a tree.

    Equals  dist.reduce(x, group_dst=root); what is in x afterwards on other ranks is open
    Shapes  x: any, contiguous, the same shape on every rank
    Cost    n-1 messages of x.nbytes, in ceil(log2 n) rounds; neighbours may make the first pairs
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
    """Exercise {{reduce_scatter_ring}}. Add up everybody's chunks; rank k gets the sum of all chunks k.

    Equals  dist.reduce_scatter(chunks[rank], chunks); what the other chunks hold afterwards is open
    Shapes  chunks: a list of n contiguous tensors, written into; chunk k is as long on every rank,
            others may be longer or shorter; the list keeps its tensors, in their order
    Cost    n-1 messages to the next rank alone; each rank sends all chunks but one
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
    """Exercise {{all_gather_ring}}. Rank k brings chunk k; everybody gets all chunks.

    Equals  dist.all_gather(chunks, chunks[rank])
    Shapes  chunks: a list of n contiguous tensors, written into; chunk k is as long on every rank,
            others may be longer or shorter; the list keeps its tensors, in their order
    Cost    n-1 messages to the next rank alone; each rank sends all chunks but one
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
    """Exercise {{all_reduce_ring}}. Add up everybody's `x` in place, talking to the two neighbours alone.

    Equals  dist.all_reduce(x)
    Shapes  x: any, contiguous; its length need not be a multiple of n
    Cost    2(n-1) messages, to one neighbour; each rank sends 2(n-1)/n * x.nbytes
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
    """Add up everybody's `x` on rank 0, and send the sum back to each: rank 0 is the hot spot.

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
    """Add up everybody's `x` on rank 0 along a tree, and send the sum back along it."""
    reduce_tree(x, 0, group)
    broadcast_tree(x, 0, group)


# ---- Everybody to everybody -----------------------------------------------------------------


def all_to_all(outputs: list[Tensor], inputs: list[Tensor], group=None) -> None:
    """Exercise {{all_to_all}}. Rank i's inputs[j] becomes rank j's outputs[i].

    Equals  dist.all_to_all(outputs, inputs)
    Shapes  n contiguous tensors in each list; rank j's outputs[i] is as long as rank i's inputs[j];
            both lists keep their tensors, in their order
    Cost    n-1 messages; each rank sends all its inputs but one
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
    """Exercise {{all_reduce_buckets}}. Add up each of many tensors, a bucket at a time instead of one by one.

    A bucket takes tensors in their order for as long as they fit into bucket_bytes; one that is
    larger than that has a bucket of its own. Each bucket is summed by all_reduce_ring. The list of
    tensors stays as it is.

    Equals  dist.all_reduce(x) for each x of the tensors
    Shapes  tensors: any, contiguous, all of one dtype
    Cost    2(n-1) messages for each bucket, instead of for each tensor
    """
    need_contiguous(*tensors)
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
    """All-reduce `nbytes` in each way; says of each whether the sum is right.

    memory   whether memory and calls are noted as well, which takes time
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
