"""Chapter 02: each check accepts right answers of any style, and tells wrong ones what is wrong."""

import math

import pytest
import torch
import torch.distributed as dist
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.course import checking

SOLVED = (ROOT / "solutions" / "labs" / "collectives.py").read_text()


@pytest.fixture(autouse=True)
def quick_hangs(monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 2.0)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its function in the learner's file."""

    def check_one(number, source=""):
        put_lab(tmp_path, monkeypatch, "collectives", f"{SOLVED}\n\n{source}", SOLVED)
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


RIGHT = {
    "2.3": """### recursive halving, the farthest first
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    reach = 1 << max(n - 1, 0).bit_length()
    have = place == 0
    while reach > 1:
        reach //= 2
        if place % (2 * reach) == 0 and place + reach < n:
            send(x, (place + reach + root) % n, group).wait()
        elif place % (2 * reach) == reach:
            receive(x, (place - reach + root) % n, group).wait()
### receive from the one without the highest bit, then send on
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place:
        parent = place - (1 << place.bit_length() - 1)
        receive(x, (parent + root) % n, group).wait()
    bit = place.bit_length()
    while place + (1 << bit) < n:
        send(x, (place + (1 << bit) + root) % n, group).wait()
        bit += 1
""",
    "2.4": """### fold the upper half onto the lower one
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, left = (rank - root) % n, n
    while left > 1:
        half = (left + 1) // 2
        if half <= place < left:
            send(x, (place - half + root) % n, group).wait()
        elif place + half < left:
            other = torch.zeros_like(x)
            receive(other, (place + half + root) % n, group).wait()
            x.add_(other)
        left = half
### recursion over bits
def reduce_tree(x, root=0, group=None, bit=0):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if 1 << bit >= n:
        return
    if place >> bit & 1:
        send(x, (place - (1 << bit) + root) % n, group).wait()
        return
    if place + (1 << bit) < n:
        other = torch.empty_like(x)
        receive(other, (place + (1 << bit) + root) % n, group).wait()
        x.copy_(x + other)
    reduce_tree(x, root, group, bit + 1)
""",
    "2.6": """### P2POp in batches
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for i in range(1, n):
        got = torch.empty_like(chunks[(rank - i - 1) % n])
        ops = [
            dist.P2POp(dist.isend, chunks[(rank - i) % n], group=group, group_peer=(rank + 1) % n),
            dist.P2POp(dist.irecv, got, group=group, group_peer=(rank - 1) % n),
        ]
        for request in dist.batch_isend_irecv(ops):
            request.wait()
        chunks[(rank - i - 1) % n].add_(got)
### the sum travels in a tensor of its own
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    carried = chunks[rank - 1].clone()
    for step in range(n - 1):
        mine = chunks[(rank - step - 2) % n]
        arriving = torch.empty_like(mine)
        request = receive(arriving, (rank - 1) % n, group)
        send(carried, (rank + 1) % n, group).wait()
        request.wait()
        carried = arriving + mine
    if n > 1:
        chunks[rank].copy_(carried)
""",
    "2.7": """### receive first, as a request
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    current = rank
    for _ in range(n - 1):
        arriving = (current - 1) % n
        request = receive(chunks[arriving], (rank - 1) % n, group)
        send(chunks[current], (rank + 1) % n, group).wait()
        request.wait()
        current = arriving
### even ranks send first
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        out, into = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        if rank % 2 == 0:
            dist.send(out, group=group, group_dst=(rank + 1) % n)
            dist.recv(into, group=group, group_src=(rank - 1) % n)
        else:
            dist.recv(into, group=group, group_src=(rank - 1) % n)
            dist.send(out, group=group, group_dst=(rank + 1) % n)
""",
    "2.8": """### one loop for both halves
def all_reduce_ring(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    parts = list(torch.tensor_split(x.view(-1), n))
    for step in range(2 * (n - 1)):
        out, into = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        got = torch.empty_like(into)
        sending = send(out, (rank + 1) % n, group)
        receive(got, (rank - 1) % n, group).wait()
        into.copy_(got if step >= n - 1 else into + got)
        sending.wait()
### padded to a multiple of n would cost more; slices by hand do not
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    flat = x.flatten()
    bounds = [flat.numel() * k // n for k in range(n + 1)]
    parts = [flat[a:b] for a, b in zip(bounds, bounds[1:])]
    reduce_scatter_ring(parts, group)
    all_gather_ring(parts, group)
    x.copy_(flat.view(x.shape))
""",
    "2.10": """### all requests at once
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank][:] = inputs[rank]
    others = [k for k in range(n) if k != rank]
    requests = [receive(outputs[k], k, group) for k in others]
    requests += [send(inputs[k], k, group) for k in others]
    for request in requests:
        request.wait()
### lower ranks send first
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for k in range(n):
        if k == rank:
            outputs[k].copy_(inputs[k])
        elif rank < k:
            send(inputs[k], k, group).wait()
            receive(outputs[k], k, group).wait()
        else:
            receive(outputs[k], k, group).wait()
            send(inputs[k], k, group).wait()
""",
    "2.12": """### a generator of slices
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    start = 0
    while start < len(tensors):
        stop, size = start + 1, tensors[start].nbytes
        while stop < len(tensors) and size + tensors[stop].nbytes <= bucket_bytes:
            size += tensors[stop].nbytes
            stop += 1
        long = torch.cat([t.flatten() for t in tensors[start:stop]])
        all_reduce_ring(long, group)
        at = 0
        for t in tensors[start:stop]:
            t.view(-1)[:] = long[at : at + t.numel()]
            at += t.numel()
        start = stop
### flush
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    def flush(bucket):
        if bucket:
            long = torch.cat([t.view(-1) for t in bucket])
            all_reduce_ring(long, group)
            for t in bucket:
                t.copy_(long[: t.numel()].view(t.shape))
                long = long[t.numel() :]
        bucket.clear()

    bucket = []
    for t in tensors:
        if sum(b.nbytes for b in bucket) + t.nbytes > bucket_bytes:
            flush(bucket)
        bucket.append(t)
    flush(bucket)
""",
}

WRONG = {
    "2.3": '''### this is a star
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if rank == root:
        for peer in range(n):
            if peer != root:
                send(x, peer, group).wait()
    else:
        receive(x, root, group).wait()
### this is a chain
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place > 0:
        receive(x, (rank - 1) % n, group).wait()
    if place < n - 1:
        send(x, (rank + 1) % n, group).wait()
### with root 0 it is right, with root 2 it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    reach = 1
    while reach < n:
        if rank < reach and rank + reach < n:
            send(x, rank + reach, group).wait()
        elif reach <= rank < 2 * reach:
            receive(x, rank - reach, group).wait()
        reach *= 2
### with 2 and 4 ranks it is right, with 3 it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach:
            send(x, (rank + reach) % n, group).wait()
        elif place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2
### the result went into another tensor
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            received = torch.empty_like(x)
            receive(received, (rank - reach) % n, group).wait()
            x = received
        reach *= 2
### sent before it had received
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place % (2 * reach) == 0 and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif place % (2 * reach) == reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2
### in a group of some ranks it is not
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(), dist.get_world_size()
    place, reach = (rank - root) % n, 1
    while reach < n:
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n).wait()
        reach *= 2
### never got it
def broadcast_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while 2 * reach <= max(n - 1, 2):
        if place < reach and place + reach < n:
            send(x, (rank + reach) % n, group).wait()
        elif reach <= place < 2 * reach:
            receive(x, (rank - reach) % n, group).wait()
        reach *= 2
### it calls dist.broadcast
def broadcast_tree(x, root=0, group=None):
    dist.broadcast(x, group=group, group_src=root)
''',
    "2.4": '''### this is a star
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    if rank != root:
        send(x, root, group).wait()
        return
    received = torch.empty_like(x)
    for peer in range(n):
        if peer != root:
            receive(received, peer, group).wait()
            x += received
### this is a chain
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    if place < n - 1:
        received = torch.empty_like(x)
        receive(received, (rank + 1) % n, group).wait()
        x += received
    if place:
        send(x, (rank - 1) % n, group).wait()
### with root 0 it is right
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    received, reach = torch.empty_like(x), 1
    while reach < n and rank % reach == 0:
        if rank % (2 * reach):
            send(x, rank - reach, group).wait()
        elif rank + reach < n:
            receive(received, rank + reach, group).wait()
            x += received
        reach *= 2
### its sum so far
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, mine = (rank - root) % n, x.clone()
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(mine, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2
### this is the mean
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2
    x /= n
### receiving into x overwrites it
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place, reach = (rank - root) % n, 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(x, (rank + reach) % n, group).wait()
        reach *= 2
### with 2 and 4 ranks it is right, with 3 it is not
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        else:
            receive(received, (rank + reach) % n, group).wait()
            x += received
        reach *= 2
### the result went into another tensor
def reduce_tree(x, root=0, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    place = (rank - root) % n
    received, reach = torch.empty_like(x), 1
    while reach < n and place % reach == 0:
        if place % (2 * reach):
            send(x, (rank - reach) % n, group).wait()
        elif place + reach < n:
            receive(received, (rank + reach) % n, group).wait()
            x = x + received
        reach *= 2
''',
    "2.6": '''### only puts another tensor into the list
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        out, into = (rank - step - 1) % n, (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        exchange(chunks[out], (rank + 1) % n, coming, (rank - 1) % n, group)
        chunks[into] = chunks[into] + coming
### on the wrong ranks: rank 0 has finished chunk 1
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % n])
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 1) % n] += received
        sending.wait()
### one step too many
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n if n > 1 else 0):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        if step < n - 1:
            chunks[(rank - step - 2) % n] += received
        sending.wait()
### is missing.
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    originals = [chunk.clone() for chunk in chunks]
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(originals[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        sending.wait()
### receiving into a chunk overwrites it
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 2) % n], (rank - 1) % n, group).wait()
        sending.wait()
### this is the mean
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        sending.wait()
    chunks[rank] /= n
### every rank talks to all others
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        received = torch.empty_like(chunks[rank])
        sending = send(chunks[(rank + shift) % n], (rank + shift) % n, group)
        receive(received, (rank - shift) % n, group).wait()
        chunks[rank] += received
        sending.wait()
### nobody gets to begin it
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        send(chunks[(rank - step - 1) % n], (rank + 1) % n, group).wait()
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
### rank 0 is a hot spot
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for k in range(n):
        if rank == 0:
            for peer in range(1, n):
                received = torch.empty_like(chunks[k])
                receive(received, peer, group).wait()
                chunks[k] += received
        else:
            send(chunks[k], 0, group).wait()
    for k in range(1, n):
        if rank == 0:
            send(chunks[k], k, group).wait()
        elif rank == k:
            receive(chunks[k], 0, group).wait()
### the two sides of a message differ in length
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    received = torch.empty_like(chunks[0])
    for step in range(n - 1):
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received[: len(chunks[(rank - step - 2) % n])]
        sending.wait()
### a message and its other side do not match
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 2) % n])
        if rank < n - 1:  # a line, not a ring
            sending = send(chunks[(rank - step - 1) % n], rank + 1, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 2) % n] += received
        if rank < n - 1:
            sending.wait()
''',
    "2.7": '''### only puts another tensor into the list
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        out, into = (rank - step) % n, (rank - step - 1) % n
        coming = torch.empty_like(chunks[into])
        exchange(chunks[out], (rank + 1) % n, coming, (rank - 1) % n, group)
        chunks[into] = coming
### passes on the chunk that came in last
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        sending = send(chunks[rank], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()
### are still what they were
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 2 if n > 2 else n - 1):
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()
### a chunk went on before it had come
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    originals = [chunk.clone() for chunk in chunks]
    for step in range(n - 1):
        sending = send(originals[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()
### holds a sum
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % n])
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 1) % n] += received
        sending.wait()
### every rank talks to all others
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        sending = send(chunks[rank], (rank + shift) % n, group)
        receive(chunks[(rank - shift) % n], (rank - shift) % n, group).wait()
        sending.wait()
### one step too many
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n if n > 1 else 0):
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()
### nobody gets to begin it
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        send(chunks[(rank - step) % n], (rank + 1) % n, group).wait()
''',
    "2.8": '''### a tuple takes nothing
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        into = (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(coming, (rank - 1) % n, group).wait()
        chunks[into] += coming
        sending.wait()
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
### this is the reduce-scatter
def all_reduce_ring(x, group=None):
    reduce_scatter_ring(x.view(-1).tensor_split(dist.get_world_size(group)), group)
### an all-gather without the sums
def all_reduce_ring(x, group=None):
    all_gather_ring(x.view(-1).tensor_split(dist.get_world_size(group)), group)
### elements are not summed: n chunks of length // n leave a rest
def all_reduce_ring(x, group=None):
    n = dist.get_world_size(group)
    size = x.numel() // n
    chunks = [x.view(-1)[k * size : (k + 1) * size] for k in range(n)]
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
### this is the mean
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x.div_(dist.get_world_size(group), rounding_mode=None if x.is_floating_point() else "floor")
### is a hot spot
def all_reduce_ring(x, group=None):
    all_reduce_star(x, group)
### the whole tensor travels round the ring
def all_reduce_ring(x, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    passing = x.clone()
    for _ in range(n - 1):
        received = torch.empty_like(x)
        sending = send(passing, (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        sending.wait()
        passing = received
        x += received
### alone got the sum, as in a reduce
def all_reduce_ring(x, group=None):
    reduce_tree(x, 0, group)
### the result went into another tensor
def all_reduce_ring(x, group=None):
    chunks = x.flatten().clone().tensor_split(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
    x = torch.cat(chunks).view_as(x)
### it calls dist.all_reduce
def all_reduce_ring(x, group=None):
    dist.all_reduce(x, group=group)
### tensor_split makes n
def all_reduce_ring(x, group=None):
    chunks = x.view(-1).chunk(dist.get_world_size(group))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
''',
    "2.10": '''### outputs[rank] is the own inputs[rank]
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()
### outputs[1] holds inputs[1] of rank 1
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[rank], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()
### outputs[1] holds inputs[0] of rank 2
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[to], source, group).wait()
        sending.wait()
### nobody gets to begin it
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for peer in range(n):
        if peer != rank:
            send(inputs[peer], peer, group).wait()
            receive(outputs[peer], peer, group).wait()
### pieces travel that their receiver does not need
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    everything = [[torch.zeros(0, dtype=x.dtype) for x in inputs] for _ in range(n)]
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        requests = [send(inputs[to], to, group), send(inputs[to].clone(), to, group)]
        receive(outputs[source], source, group).wait()
        receive(outputs[source], source, group).wait()
        for request in requests:
            request.wait()
### has been overwritten; only outputs change
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to].clone(), to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()
    outputs[rank].copy_(inputs[rank])
    for x in inputs:
        x.zero_()
### a rank sends to itself
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()
''',
    "2.12": '''### every tensor still has an all-reduce of its own
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    for x in tensors:
        all_reduce_ring(x, group)
### everything is in one bucket
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        flat = torch.cat([x.view(-1) for x in tensors])
        all_reduce_ring(flat, group)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors])):
            x.copy_(part.view_as(x))
### The last bucket is never full
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    bucket = []
    for x in tensors:
        if bucket and sum(b.nbytes for b in bucket) + x.nbytes > bucket_bytes:
            flat = torch.cat([b.view(-1) for b in bucket])
            all_reduce_ring(flat, group)
            for b, part in zip(bucket, flat.split([b.numel() for b in bucket])):
                b.copy_(part.view_as(b))
            bucket = []
        bucket.append(x)
### torch.cat makes a copy
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        all_reduce_ring(torch.cat([x.view(-1) for x in tensors]), group)
### this is the mean
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    for x in tensors:
        all_reduce_ring(x, group)
        x.copy_(x / dist.get_world_size(group))
### some bucket holds more than 400 bytes
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets, filled = [[]], 0
    for x in tensors:
        buckets[-1].append(x)
        filled += x.nbytes
        if filled > bucket_bytes:
            buckets.append([])
            filled = 0
    for bucket in filter(None, buckets):
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))
### come back into the wrong places
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    if tensors:
        flat = torch.cat([x.view(-1) for x in tensors])
        all_reduce_ring(flat, group)
        flat = flat.flip(0)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors])):
            x.copy_(part.view_as(x))
### although it would have fitted
def all_reduce_buckets(tensors, bucket_bytes, group=None):
    buckets = []
    for x in tensors:
        if not buckets or sum(b.nbytes for b in buckets[-1]) + x.nbytes > bucket_bytes // 2:
            buckets.append([])
        buckets[-1].append(x)
    for bucket in buckets:
        flat = torch.cat([x.view(-1) for x in bucket])
        all_reduce_ring(flat, group)
        for x, part in zip(bucket, flat.split([x.numel() for x in bucket])):
            x.copy_(part.view_as(x))
''',
}  # fmt: skip


def cases(table):
    return [
        pytest.param(number, phrase, source, id=f"{number} {phrase}")
        for number, text in table.items()
        for phrase, source in answers(text).items()
    ]


@pytest.mark.parametrize("number", RIGHT)
def test_the_solution_is_right(number, check_lab):
    verdict = check_lab(number)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "style", "source"), cases(RIGHT))
def test_right_answers_of_another_style(number, style, source, check_lab):
    verdict = check_lab(number, source)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase", "source"), cases(WRONG))
def test_wrong_answers_are_told_what_is_wrong(number, phrase, source, check_lab):
    verdict = check_lab(number, source)
    assert verdict.passed is False
    assert phrase in verdict.wrong.why, verdict
    assert all(line.count("✗") == 0 for line in verdict.lines)


@pytest.mark.parametrize("number", WRONG)
def test_there_are_enough_of_both(number):
    assert len(answers(WRONG[number])) >= 5
    assert len(answers(RIGHT[number])) >= 2


# ---- In cells -------------------------------------------------------------------------------


def swap(x):
    peer = dist.get_rank() ^ 1
    received = torch.empty_like(x)
    sending = dist.isend(x, peer)
    dist.recv(received, peer)
    sending.wait()
    return received


def swap_in_turns(x):
    rank = dist.get_rank()
    received = torch.zeros_like(x)
    if rank % 2:
        dist.recv(received, rank - 1)
        dist.send(x, rank - 1)
    else:
        dist.send(x, rank + 1)
        dist.recv(received, rank + 1)
    return received


def swap_in_a_batch(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    messages = [dist.P2POp(dist.irecv, received, peer), dist.P2POp(dist.isend, x, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return received


def both_send_first(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    dist.send(x, peer)
    dist.recv(received, peer)
    return received


def returns_its_own(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    sending = dist.isend(x, peer)
    dist.recv(received, peer)
    sending.wait()
    return x


def receives_into_x(x):
    peer, copy = dist.get_rank() ^ 1, x.clone()
    sending = dist.isend(copy, peer)
    dist.recv(x, peer)
    sending.wait()
    return x.clone()


def next_in_a_ring(x):
    rank, n, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(received, (rank - 1) % n)
    sending.wait()
    return received


def sums(x):
    return x + swap(x)


def returns_nothing(x):
    swap(x)


def gathers(x):
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, x)
    return everything[dist.get_rank() ^ 1]


def with_a_loop(n, megabytes, megabytes_per_second):
    rounds = 0
    while 2**rounds < n:
        rounds += 1
    return rounds * megabytes / megabytes_per_second


def cost(how, n, x, alpha, beta, halves=2):
    if how == "ring":
        return halves * (n - 1) * (alpha + x / n / beta)
    return halves * math.ceil(math.log2(n)) * (alpha + x / beta)


def share(name, n, x):
    return {"all_reduce": 2}.get(name, 1) * (n - 1) * x / n


RIGHT_IN_CELLS = {
    "2.1": [swap_in_a_batch, swap, swap_in_turns],
    "2.2": [
        lambda n, megabytes, speed: math.ceil(math.log2(n)) * megabytes / speed,
        lambda n, megabytes, speed: (n - 1).bit_length() * megabytes / speed,
        with_a_loop,
    ],
    "2.5": [
        lambda rank, step, n: (rank - step - 1) % n,
        lambda rank, step, n: (rank + n * n - 1 - step) % n,
    ],
    "2.9": [share, lambda name, n, x: x * (1 - 1 / n) * (2 if name == "all_reduce" else 1)],
    "2.11": [
        cost,
        lambda how, n, x, a, b: (
            2 * (n - 1) * a + 2 * (n - 1) / n * x / b
            if how == "ring"
            else 2 * (n - 1).bit_length() * (a + x / b)
        ),
    ],
}
WRONG_IN_CELLS = {
    "2.1": {
        "nobody gets to begin it": both_send_first,
        "every rank returns its own x": returns_its_own,
        "it received into the tensor that it was sending": receives_into_x,
        "0 and 1 are partners": next_in_a_ring,
        "this is the sum of both": sums,
        "without `return`": returns_nothing,
        "it calls dist.all_gather": gathers,
    },
    "2.2": {
        "this is one after another": lambda n, mb, speed: (n - 1) * mb / speed,
        "a part of a round takes a whole one": lambda n, mb, speed: math.log2(n) * mb / speed,
        "round up": lambda n, mb, speed: math.floor(math.log2(n)) * mb / speed,
        "this counts rounds": lambda n, mb, speed: math.ceil(math.log2(n)),
        "divide by the speed": lambda n, mb, speed: math.ceil(math.log2(n)) * mb * speed,
        "does not grow by two": lambda n, mb, speed: n / 2 * mb / speed,
        "there are several": lambda n, mb, speed: mb / speed,
        "without `return`": lambda n, mb, speed: None,
    },
    "2.5": {
        "begin with another one": lambda rank, step, n: (rank - step) % n,
        "always sends the same chunk": lambda rank, step, n: (rank - 1) % n,
        "take % n": lambda rank, step, n: rank - step - 1,
        "all ranks send the same chunk": lambda rank, step, n: step % n,
        "go down by one": lambda rank, step, n: (rank + step + 1) % n,
        "without `return`": lambda rank, step, n: None,
    },
    "2.9": {
        "this is in MB": lambda name, n, x: share(name, n, x) / 1e6,
        "what all ranks send together": lambda name, n, x: n * share(name, n, x),
        "the whole tensor would travel": lambda name, n, x: (
            (n - 1) * x if n > 2 else share(name, n, x)
        ),
        "one step too many in each half": lambda name, n, x: 2 * x,
        "an all-reduce is a reduce-scatter and an all-gather": lambda name, n, x: (n - 1) * x / n,
        "only an all-reduce goes round the ring twice": lambda name, n, x: 2 * (n - 1) * x / n,
        "this is one message": lambda name, n, x: x / n,
    },
    "2.11": {
        "the latency is missing": lambda how, n, x, a, b: cost(how, n, x, 0, b),
        "every message costs a latency": lambda how, n, x, a, b: a + cost(how, n, x, 0, b),
        "this is one way only": lambda how, n, x, a, b: cost(how, n, x, a, b, halves=1),
        "a message is a chunk": lambda how, n, x, a, b: cost(how, n, n * x, a, b),
        "every message is the whole X": lambda how, n, x, a, b: cost(
            how, n, x if how == "ring" else x / n, a, b
        ),
        "not n": lambda how, n, x, a, b: 2 * n * (a + x / n / b),
        "divide by it": lambda how, n, x, a, b: cost(how, n, x, a, 1 / b),
    },
}


def named(table):
    return [
        pytest.param(number, phrase, answer, id=f"{number} {phrase}")
        for number, of_exercise in table.items()
        for phrase, answer in of_exercise.items()
    ]


@pytest.mark.parametrize("number", RIGHT_IN_CELLS)
def test_right_answers_in_a_cell(number):
    assert len(RIGHT_IN_CELLS[number]) >= 2
    for answer in RIGHT_IN_CELLS[number]:
        verdict = check(number, answer)
        assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase", "answer"), named(WRONG_IN_CELLS))
def test_wrong_answers_in_a_cell(number, phrase, answer):
    assert len(WRONG_IN_CELLS[number]) >= 5
    verdict = check(number, answer)
    assert verdict.passed is False
    assert phrase in verdict.wrong.why + verdict.wrong.what, verdict


def test_a_ring_runs_on_a_learners_half_of_either_style(check_lab):
    """Our all_reduce_ring hands out what the exercise promises: a list."""
    verdict = check_lab(
        "2.8",
        """
def reduce_scatter_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        into = (rank - step - 2) % n
        coming = torch.empty_like(chunks[into])
        sending = send(chunks[(rank - step - 1) % n], (rank + 1) % n, group)
        receive(coming, (rank - 1) % n, group).wait()
        chunks[into] += coming
        sending.wait()
""",
    )
    assert verdict.passed, verdict
