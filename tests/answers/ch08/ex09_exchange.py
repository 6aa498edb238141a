# %% right · the lower rank sends first
def exchange(outgoing, incoming, rank, peer):
    if rank < peer:
        dist.send(outgoing, peer)
        dist.recv(incoming, peer)
    else:
        dist.recv(incoming, peer)
        dist.send(outgoing, peer)
    return incoming

# %% right · isend, and wait at the end
def exchange(outgoing, incoming, rank, peer):
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()
    return incoming

# %% wrong · both ranks wait in send
def exchange(outgoing, incoming, rank, peer):
    dist.send(outgoing, peer)
    dist.recv(incoming, peer)
    return incoming

# %% wrong · neither gets as far as its own send
def exchange(outgoing, incoming, rank, peer):
    dist.recv(incoming, peer)
    dist.send(outgoing, peer)
    return incoming

# %% wrong · isend begins a message, and returns
def exchange(outgoing, incoming, rank, peer):
    dist.isend(outgoing, peer).wait()
    dist.recv(incoming, peer)
    return incoming

# %% wrong · it reads `outgoing` until
def exchange(outgoing, incoming, rank, peer):
    dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    return incoming

# %% wrong · and the numbers come later
def exchange(outgoing, incoming, rank, peer):
    dist.irecv(incoming, peer)
    dist.isend(outgoing, peer).wait()
    return incoming

# %% wrong · a pair need not be an even and an odd rank
def exchange(outgoing, incoming, rank, peer):
    if rank % 2 == 0:
        dist.send(outgoing, peer)
        dist.recv(incoming, peer)
    else:
        dist.recv(incoming, peer)
        dist.send(outgoing, peer)
    return incoming

# %% wrong · this is for all ranks of the world
def exchange(outgoing, incoming, rank, peer):
    everybody = [torch.empty_like(incoming) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, outgoing)
    return incoming.copy_(everybody[peer])

# %% wrong · the caller looks there
def exchange(outgoing, incoming, rank, peer):
    incoming = torch.empty_like(incoming)
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()
    return incoming

# %% wrong · no call for both
def exchange(outgoing, incoming, rank, peer):
    dist.sendrecv(outgoing, incoming, peer)
    return incoming
