# %% right · receive first, as a request
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    current = rank
    for _ in range(n - 1):
        arriving = (current - 1) % n
        request = receive(chunks[arriving], (rank - 1) % n, group)
        send(chunks[current], (rank + 1) % n, group).wait()
        request.wait()
        current = arriving

# %% right · even ranks send first
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

# %% wrong · only puts another tensor into the list
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        out, into = (rank - step) % n, (rank - step - 1) % n
        coming = torch.empty_like(chunks[into])
        exchange(chunks[out], (rank + 1) % n, coming, (rank - 1) % n, group)
        chunks[into] = coming

# %% wrong · passes on the chunk that came in last
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        sending = send(chunks[rank], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()

# %% wrong · are still what they were
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 2 if n > 2 else n - 1):
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()

# %% wrong · a chunk went on before it had come
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    originals = [chunk.clone() for chunk in chunks]
    for step in range(n - 1):
        sending = send(originals[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()

# %% wrong · holds a sum
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % n])
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(received, (rank - 1) % n, group).wait()
        chunks[(rank - step - 1) % n] += received
        sending.wait()

# %% wrong · every rank talks to all others
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for shift in range(1, n):
        sending = send(chunks[rank], (rank + shift) % n, group)
        receive(chunks[(rank - shift) % n], (rank - shift) % n, group).wait()
        sending.wait()

# %% wrong · one step too many
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n if n > 1 else 0):
        sending = send(chunks[(rank - step) % n], (rank + 1) % n, group)
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        sending.wait()

# %% wrong · nobody gets to begin it
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for step in range(n - 1):
        receive(chunks[(rank - step - 1) % n], (rank - 1) % n, group).wait()
        send(chunks[(rank - step) % n], (rank + 1) % n, group).wait()

# %% wrong · begins with the chunk that is its own
# -         outgoing, incoming = chunks[(rank - step + 1) % n], chunks[(rank - step) % n]
# +         outgoing, incoming = chunks[(rank - step - 1) % n], chunks[(rank - step - 2) % n]

# %% right · a copy travels
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    carried = chunks[rank].clone()
    for s in range(1, n):
        k = (rank - s) % n
        got = torch.empty_like(chunks[k])
        exchange(carried, (rank + 1) % n, got, (rank - 1) % n, group)
        chunks[k].copy_(got)
        carried = got

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    chunks[:] = [chunks[(rank - s) % n] for s in range(n)]
    for s in range(n - 1):
        exchange(chunks[s], (rank + 1) % n, chunks[s + 1], (rank - 1) % n, group)

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    chunks.reverse()
    at = lambda k: chunks[n - 1 - k % n]
    for s in range(n - 1):
        exchange(at(rank - s), (rank + 1) % n, at(rank - s - 1), (rank - 1) % n, group)

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for s in range(n - 1):
        exchange(chunks[(rank - s) % n], (rank + 1) % n, chunks[(rank - s - 1) % n], (rank - 1) % n, group)
    chunks[:] = [c.clone() for c in chunks]

# %% wrong · it belongs to the caller, and has to keep its tensors
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for s in range(n - 1):
        exchange(chunks[(rank - s) % n], (rank + 1) % n, chunks[(rank - s - 1) % n], (rank - 1) % n, group)
    chunks.append(torch.cat(chunks))

# %% wrong · a ring sends
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    carried = chunks[rank].double()
    for s in range(1, n):
        k = (rank - s) % n
        got = torch.empty_like(chunks[k], dtype=torch.float64)
        exchange(carried, (rank + 1) % n, got, (rank - 1) % n, group)
        chunks[k].copy_(got)
        carried = got

# %% wrong · not as long: they have another dtype
def all_gather_ring(chunks, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    longest = max(map(len, chunks))
    carried = chunks[rank].new_zeros(longest)
    carried[: len(chunks[rank])] = chunks[rank]
    for s in range(1, n):
        got = torch.empty_like(carried)
        exchange(carried, (rank + 1) % n, got, (rank - 1) % n, group)
        k = (rank - s) % n
        chunks[k].copy_(got[: len(chunks[k])])
        carried = got
