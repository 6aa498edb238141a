# %% right · all requests at once
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank][:] = inputs[rank]
    others = [k for k in range(n) if k != rank]
    requests = [receive(outputs[k], k, group) for k in others]
    requests += [send(inputs[k], k, group) for k in others]
    for request in requests:
        request.wait()

# %% right · lower ranks send first
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

# %% wrong · outputs[rank] is the own inputs[rank]
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()

# %% wrong · outputs[1] holds inputs[1] of rank 1
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[rank], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()

# %% wrong · outputs[1] holds inputs[0] of rank 3
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[to], source, group).wait()
        sending.wait()

# %% wrong · nobody gets to begin it
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for peer in range(n):
        if peer != rank:
            send(inputs[peer], peer, group).wait()
            receive(outputs[peer], peer, group).wait()

# %% wrong · pieces travel that their receiver does not need
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

# %% wrong · has been overwritten; only outputs change
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

# %% wrong · a rank sends to itself
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(n):
        to, source = (rank + shift) % n, (rank - shift) % n
        sending = send(inputs[to], to, group)
        receive(outputs[source], source, group).wait()
        sending.wait()

# %% wrong · only where n is a power of two
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for k in range(1, n):
        peer = rank ^ k
        exchange(inputs[peer], peer, outputs[peer], peer, group)

# %% wrong · which sends to rank
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for k in range(1, n):
        peer = (rank + k) % n
        exchange(inputs[peer], peer, outputs[peer], peer, group)

# %% wrong · as long as
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        incoming = torch.empty_like(inputs[source])
        exchange(inputs[to], to, incoming, source, group)
        outputs[source].copy_(incoming)

# %% wrong · is it a rank in the world?
def all_to_all(outputs, inputs, group=None):
    rank, members = dist.get_rank(group), dist.get_process_group_ranks(group)
    outputs[rank].copy_(inputs[rank])
    requests = []
    for k, member in enumerate(members):
        if k != rank:
            requests += [send(inputs[k], member, group), receive(outputs[k], member, group)]
    for request in requests:
        request.wait()

# %% wrong · `dst` and `src` are ranks in the world
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    requests = []
    for k in range(n):
        if k != rank:
            requests += [dist.isend(inputs[k], k, group), dist.irecv(outputs[k], k, group)]
    for request in requests:
        request.wait()

# %% right · a tournament
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for turn in range(n):
        peer = (turn - rank) % n
        if peer != rank:
            exchange(inputs[peer], peer, outputs[peer], peer, group)

# %% right · the other direction
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for d in range(1, n):
        exchange(inputs[rank - d], (rank - d) % n, outputs[(rank + d) % n], (rank + d) % n, group)
    outputs[rank][...] = inputs[rank]

# %% wrong · What comes in replaces it; nothing is added
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank] += inputs[rank]
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        got = torch.empty_like(outputs[source])
        exchange(inputs[to], to, got, source, group)
        outputs[source] += got

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        exchange(inputs[to], to, outputs[source], source, group)
    outputs.reverse()

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        exchange(inputs[to], to, outputs[source], source, group)
    inputs.clear()

# %% wrong · the tensor lies in other memory than before
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].data = inputs[rank]
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        exchange(inputs[to], to, outputs[source], source, group)

# %% wrong · pieces travel that their receiver does not need
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    outputs[rank].copy_(inputs[rank])
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        got = outputs[source].double()
        exchange(inputs[to].double(), to, got, source, group)
        outputs[source].copy_(got)

# %% wrong · not as long: they have another dtype
def all_to_all(outputs, inputs, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    longest = max([len(x) for x in inputs + outputs])
    longest = 30 if longest < 30 else longest
    outputs[rank].copy_(inputs[rank])
    for d in range(1, n):
        to, source = (rank + d) % n, (rank - d) % n
        out, got = inputs[to].new_zeros(longest), inputs[to].new_zeros(longest)
        out[: len(inputs[to])] = inputs[to]
        exchange(out, to, got, source, group)
        outputs[source].copy_(got[: len(outputs[source])])
