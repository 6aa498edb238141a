# %% right · PyTorch's all-gather, and views by hand
@torch.no_grad()
def gather(unit):
    unit.flat.untyped_storage().resize_(unit.flat.numel() * unit.flat.element_size())
    dist.all_gather(list(unit.chunks), unit.shard.detach(), group=unit.group)
    start = 0
    for p, size, shape in zip(unit.parameters, unit.sizes, unit.shapes):
        p.data = unit.flat[start : start + size].view(shape)
        start += size

# %% right · into one tensor, as FSDP does
@torch.no_grad()
def gather(unit):
    import torch.distributed._functional_collectives

    torch.distributed.utils._alloc_storage(unit.flat, unit.flat.size())
    dist.all_gather_into_tensor(unit.flat, unit.shard, group=unit.group)
    show_parameters(unit)

# %% right · a broadcast from each rank
def gather(unit):
    unit.flat.storage().resize_(unit.flat.numel())
    for rank, chunk in enumerate(unit.chunks):
        if rank == unit.rank:
            chunk[:] = unit.shard.data
        dist.broadcast(chunk, group_src=rank, group=unit.group)
    show_parameters(unit)

# %% wrong · a storage counts bytes
# -     unit.flat.untyped_storage().resize_(unit.flat.nbytes)
# +     unit.flat.untyped_storage().resize_(unit.flat.numel())

# %% wrong · copy the shard into the chunk, before
# -     unit.chunks[unit.rank].copy_(unit.shard)

# %% wrong · it takes twice its memory
# -     show_parameters(unit)
# +     parts = unit.flat[: sum(unit.sizes)].split(unit.sizes)
# +     for p, part, shape in zip(unit.parameters, parts, unit.shapes):
# +         p.data = part.view(shape).clone()

# %% wrong · there is padding at its end
# -     show_parameters(unit)
# +     for p, part, shape in zip(unit.parameters, unit.flat.split(unit.sizes), unit.shapes):
# +         p.data = part.view(shape)

# %% wrong · and never see a new one
@torch.no_grad()
def gather(unit):
    shards = [torch.empty_like(unit.shard) for _ in range(unit.n)]
    dist.all_gather(shards, unit.shard, group=unit.group)
    unit.flat = torch.cat(shards)
    unit.chunks = unit.flat.chunk(unit.n)
    show_parameters(unit)

# %% wrong · write into a chunk with copy_
# -     unit.chunks[unit.rank].copy_(unit.shard)
# +     unit.chunks[unit.rank] = unit.shard

# %% wrong · the shard needs memory of its own
# -     unit.chunks[unit.rank].copy_(unit.shard)
# +     unit.chunks[unit.rank].copy_(unit.shard)
# +     unit.shard.data = unit.chunks[unit.rank]

# %% wrong · flat is filled from it, not it from flat
# -     unit.chunks[unit.rank].copy_(unit.shard)
# +     unit.shard.copy_(unit.chunks[unit.rank])

# %% wrong · leave gather() under
# - @torch.no_grad()

# %% wrong · the storage is resized first
# -     unit.flat.untyped_storage().resize_(unit.flat.nbytes)

# %% wrong · not the number of its elements
# -     unit.flat.untyped_storage().resize_(unit.flat.nbytes)
# +     unit.flat.untyped_storage().resize_(unit.flat.numel() * 8)

# %% wrong · hand `group` to every call
# -     all_gather_ring(unit.chunks, unit.group)
# +     all_gather_ring(unit.chunks)

# %% wrong · each rank sends all of flat to all others
# -     all_gather_ring(unit.chunks, unit.group)
# +     everybodys = [torch.empty_like(unit.flat) for _ in range(unit.n)]
# +     dist.all_gather(everybodys, unit.flat, group=unit.group)
# +     for rank, theirs in enumerate(everybodys):
# +         unit.chunks[rank].copy_(theirs.chunk(unit.n)[rank])

# %% wrong · an all-reduce sends twice as much
# -     unit.flat.untyped_storage().resize_(unit.flat.nbytes)
# +     unit.flat.untyped_storage().resize_(unit.flat.nbytes)
# +     unit.flat.zero_()
# -     all_gather_ring(unit.chunks, unit.group)
# +     dist.all_reduce(unit.flat, group=unit.group)

# %% wrong · makes the same calls
# -     unit.chunks[unit.rank].copy_(unit.shard)
# -     all_gather_ring(unit.chunks, unit.group)
# +     for rank, chunk in enumerate(unit.chunks):
# +         if rank == unit.rank:
# +             chunk.copy_(unit.shard)
# +         else:
# +             dist.recv(chunk, group_src=rank, group=unit.group)

# %% wrong · these are the shards as they were before
@torch.no_grad()
def gather(unit):
    storage = unit.flat.untyped_storage()
    if storage.nbytes():
        return
    storage.resize_(unit.flat.nbytes)
    unit.chunks[unit.rank].copy_(unit.shard)
    all_gather_ring(unit.chunks, unit.group)
    show_parameters(unit)
