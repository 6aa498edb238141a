# %% right · in a batch, receiving first
# -     partner, received = dist.get_rank() ^ 1, torch.empty_like(x)
# -     messages = [dist.P2POp(dist.isend, x, partner), dist.P2POp(dist.irecv, received, partner)]
# +     peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
# +     messages = [dist.P2POp(dist.irecv, received, peer), dist.P2POp(dist.isend, x, peer)]

# %% right · begin to send, receive, wait
def swap(x):
    peer = dist.get_rank() ^ 1
    received = torch.empty_like(x)
    sending = dist.isend(x, peer)
    dist.recv(received, peer)
    sending.wait()
    return received

# %% right · in turns
def swap(x):
    rank = dist.get_rank()
    received = torch.zeros_like(x)
    if rank % 2:
        dist.recv(received, rank - 1)
        dist.send(x, rank - 1)
    else:
        dist.send(x, rank + 1)
        dist.recv(received, rank + 1)
    return received

# %% right · from a thread
def swap(x):
    import threading

    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    sender = threading.Thread(target=dist.send, args=(x, peer))
    sender.start()
    dist.recv(received, peer)
    sender.join()
    return received

# %% wrong · nobody gets to begin it
def swap(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    dist.send(x, peer)
    dist.recv(received, peer)
    return received

# %% wrong · every rank returns its own x
def swap(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    sending = dist.isend(x, peer)
    dist.recv(received, peer)
    sending.wait()
    return x

# %% wrong · it is only sent, and stays as it is
def swap(x):
    peer, copy = dist.get_rank() ^ 1, x.clone()
    sending = dist.isend(copy, peer)
    dist.recv(x, peer)
    sending.wait()
    return x.clone()

# %% wrong · 0 and 1 are partners
def swap(x):
    rank, n, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(received, (rank - 1) % n)
    sending.wait()
    return received

# %% wrong · this is the sum of both
# -     return received
# +     return x + received

# %% wrong · without `return`
# -     return received

# %% wrong · it calls dist.all_gather
def swap(x):
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, x)
    return everything[dist.get_rank() ^ 1]

# %% wrong · nobody has waited for the request of isend
def swap(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    dist.isend(x, peer)
    dist.irecv(received, peer)
    return received

# %% wrong · A second wait() never ends
def swap(x):
    peer, received = dist.get_rank() ^ 1, torch.empty_like(x)
    a = dist.isend(x, peer)
    b = dist.irecv(received, peer)
    a.wait()
    b.wait()
    b.wait()
    return received

# %% wrong · names rank -1 as the other side
def swap(x):
    peer, received = dist.get_rank() - 1, torch.empty_like(x)
    a = dist.isend(x, peer)
    dist.recv(received, peer)
    a.wait()
    return received

# %% wrong · is of float32 unless told otherwise
def swap(x):
    peer, received = dist.get_rank() ^ 1, torch.empty(x.shape)
    a = dist.isend(x, peer)
    dist.recv(received, peer)
    a.wait()
    return received

# %% right · irecv first, then send
def swap(x):
    peer = dist.get_rank() ^ 1
    got = torch.zeros_like(x)
    r = dist.irecv(got, peer)
    dist.send(x, peer)
    r.wait()
    return got

# %% right · receives from anybody
def swap(x):
    got = torch.empty_like(x)
    s = dist.isend(x.clone(), dist.get_rank() ^ 1)
    dist.recv(got)
    s.wait()
    return got

# %% wrong · list index out of range
def swap(x):
    peer = [1, 0, 3, 2][dist.get_rank()]
    got = torch.empty_like(x)
    for r in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, got, peer)]):
        r.wait()
    return got

# %% wrong · a message and its other side do not match
def swap(x):
    rank = dist.get_rank()
    peer = rank + 1 if rank == 0 or rank == 2 else rank - 1
    got = torch.empty_like(x)
    for r in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, got, peer)]):
        r.wait()
    return got

# %% wrong · in its own dtype, and in no collective
def swap(x):
    import threading
    everything = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    t = threading.Thread(target=dist.all_gather, args=(everything, x))
    t.start(); t.join()
    return everything[dist.get_rank() ^ 1]

# %% wrong · in its own dtype, and in no collective
def swap(x):
    import pickle
    store = dist.distributed_c10d._get_default_store()
    key = f"x{x.shape}{x.dtype}{dist.get_world_size()}"
    store.set(f"{key}{dist.get_rank()}", pickle.dumps(x))
    return pickle.loads(store.get(f"{key}{dist.get_rank() ^ 1}"))

# %% wrong · swap returned
def swap(x):
    peer = dist.get_rank() ^ 1
    got = torch.empty_like(x)
    s = dist.isend(x, peer); dist.recv(got, peer); s.wait()
    return got.tolist()

# %% wrong · the result has the shape and the dtype of x
def swap(x):
    peer = dist.get_rank() ^ 1
    got = torch.empty(x.numel(), dtype=x.dtype)
    s = dist.isend(x, peer); dist.recv(got, peer); s.wait()
    return got

# %% wrong · in one message, in its own dtype
def swap(x):
    peer = dist.get_rank() ^ 1
    got = torch.empty_like(x)
    flat, out = x.view(-1), got.view(-1)
    for i in range(min(len(flat), 100)):
        s = dist.isend(flat[i:i+1], peer); dist.recv(out[i:i+1], peer); s.wait()
    s = dist.isend(flat[100:], peer); dist.recv(out[100:], peer); s.wait()
    return got

# %% wrong · the result has the shape and the dtype of x
def swap(x):
    peer = dist.get_rank() ^ 1
    got = torch.empty_like(x, dtype=torch.float64)
    s = dist.isend(x.double(), peer); dist.recv(got, peer); s.wait()
    return got

# %% wrong · The last rank is odd, so its partner is the one before it
def swap(x):
    partner, received = dist.get_rank() + 1, torch.empty_like(x)
    sending = dist.isend(x, partner)
    dist.recv(received, partner)
    sending.wait()
    return received
