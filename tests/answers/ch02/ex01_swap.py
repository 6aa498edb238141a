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
