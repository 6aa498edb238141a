# %% right · the lower rank sends first
def exchange(outgoing, incoming, rank, peer):
    if rank < peer:
        dist.send(outgoing, peer)
        dist.recv(incoming, peer)
    else:
        dist.recv(incoming, peer)
        dist.send(outgoing, peer)
    return incoming

# %% right · a batch that begins with what comes
def exchange(outgoing, incoming, rank, peer):
    coming, going = dist.P2POp(dist.irecv, incoming, peer), dist.P2POp(dist.isend, outgoing, peer)
    requests = dist.batch_isend_irecv([coming, going])
    [request.wait() for request in requests]
    return incoming

# %% wrong · it is right on Gloo
def exchange(outgoing, incoming, rank, peer):
    request = dist.irecv(incoming, peer)
    dist.send(outgoing, peer)
    request.wait()
    return incoming

# %% wrong · take turns
def exchange(outgoing, incoming, rank, peer):
    request = dist.isend(outgoing, peer)
    dist.recv(incoming, peer)
    request.wait()
    return incoming

# %% wrong · it hangs: after 2.5 s, 0 of 2 ranks had returned
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

# %% wrong · one side has returned
def exchange(outgoing, incoming, rank, peer):
    if rank < peer:
        return incoming
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
    calls = (dist.send, outgoing), (dist.recv, incoming)
    for call, tensor in calls if rank % 2 == 0 else calls[::-1]:
        call(tensor, peer)
    return incoming

# %% wrong · this is for all ranks of the world
def exchange(outgoing, incoming, rank, peer):
    everybody = [torch.empty_like(incoming) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, outgoing)
    return incoming.copy_(everybody[peer])

# %% wrong · no call for both
def exchange(outgoing, incoming, rank, peer):
    dist.sendrecv(outgoing, incoming, peer)
    return incoming

# %% wrong · one message each way is enough
def exchange(outgoing, incoming, rank, peer):
    half = -(-outgoing.numel() // 2)
    for there, here in zip(outgoing.view(-1).split(half), incoming.view(-1).split(half)):
        both = dist.P2POp(dist.isend, there, peer), dist.P2POp(dist.irecv, here, peer)
        for request in dist.batch_isend_irecv([*both]):
            request.wait()
    return incoming

# %% wrong · one message each way is enough
def exchange(outgoing, incoming, rank, peer):
    got = [None]
    if rank < peer:
        dist.send_object_list([outgoing], peer)
    dist.recv_object_list(got, peer)
    if rank > peer:
        dist.send_object_list([outgoing], peer)
    return incoming.copy_(got[0])

# %% wrong · nearly right: it was rounded
def exchange(outgoing, incoming, rank, peer):
    there, here = outgoing.float(), incoming.float()
    both = dist.P2POp(dist.isend, there, peer), dist.P2POp(dist.irecv, here, peer)
    for request in dist.batch_isend_irecv([*both]):
        request.wait()
    return incoming.copy_(here)
