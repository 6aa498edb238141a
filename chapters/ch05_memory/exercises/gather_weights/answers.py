# %% right · the largest of all ranks, gathered
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     each = [torch.empty_like(largest) for _ in range(dist.get_world_size(group))]
# +     dist.all_gather(each, largest, group=group)
# +     scale = torch.stack(each).max().item() / 448 or 1.0

# %% right · a smallest scale
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = (largest / 448).clamp(min=1e-12)

# %% right · an inverse scale, and numbers cut off at 448
def gather_weights(shard, group=None):
    largest = shard.abs().amax().clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    inverse = 448 / largest if largest.item() else torch.tensor(1.0)
    elements = (shard * inverse).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    parts = [torch.zeros_like(elements) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, elements, group=group)
    return torch.cat([part.view(torch.float8_e4m3fn).float() / inverse for part in parts])

# %% wrong · ranks disagree about the weight
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = largest / 448

# %% wrong · 0 / 0 is nan
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = largest / 448

# %% wrong · each shard has a scale of its own here
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     # the shard's own
# -     return torch.cat(parts).float() * scale
# +     scales = [torch.empty_like(scale) for _ in parts]
# +     dist.all_gather(scales, scale, group=group)
# +     return torch.cat([part.float() * each for part, each in zip(parts, scales)])

# %% wrong · the sum of all ranks' largest magnitudes
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     dist.all_reduce(largest, group=group)

# %% wrong · the smallest of all ranks' largest magnitudes
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     dist.all_reduce(largest, dist.ReduceOp.MIN, group=group)

# %% wrong · the mean of all ranks' largest magnitudes
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     dist.all_reduce(largest, group=group)
# +     largest /= dist.get_world_size(group)

# %% wrong · agree on the scale before you divide
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = (largest / 448).clamp(min=1e-30)
# +     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# -     return torch.cat(parts).float() * scale
# +     return torch.cat(parts).float() * (largest / 448)

# %% wrong · multiply them by the scale
# -     return torch.cat(parts).float() * scale
# +     return torch.cat(parts).float()

# %% wrong · cast to E4M3 before the all-gather
def gather_weights(shard, group=None):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, shard, group=group)
    whole = torch.cat(parts)
    largest = whole.abs().max()
    scale = torch.where(largest > 0, largest / 448, 1.0)
    return (whole / scale).to(torch.float8_e4m3fn).float() * scale

# %% wrong · nothing is rounded to E4M3
def gather_weights(shard, group=None):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, shard, group=group)
    return torch.cat(parts)

# %% wrong · make new tensors
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     shard.clamp_(-0.1, 0.1)

# %% wrong · Gloo takes no float8
def gather_weights(shard, group=None):
    largest = shard.abs().max()
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    scale = torch.where(largest > 0, largest / 448, 1.0)
    elements = (shard / scale).to(torch.float8_e4m3fn)
    parts = [torch.empty_like(elements) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, elements, group=group)
    return torch.cat(parts).float() * scale

# %% wrong · take magnitudes first
def gather_weights(shard, group=None):
    largest = shard.max()
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    scale = torch.where(largest > 0, largest / 448, 1.0)
    elements = (shard / scale).to(torch.float8_e4m3fn)
    parts = [torch.empty_like(elements) for _ in range(dist.get_world_size(group))]
    dist.all_gather([part.view(torch.uint8) for part in parts], elements.view(torch.uint8),
                    group=group)
    return torch.cat(parts).float() * scale

# %% wrong · the largest magnitude may lie on any rank
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# +     dist.broadcast(largest, group_src=0, group=group)

# %% wrong · rounded to a power of two, as in MXFP8
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = torch.where(largest > 0, (largest / 448).log2().ceil().exp2(), 1.0)

# %% wrong · too large for such small weights
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = largest.clamp(min=1e-3) / 448

# %% wrong · a number is added to the scale
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = largest / 448 + 1e-8

# %% wrong · look for 0 afterwards
# -     dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
# -     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     scale = torch.where(largest > 0, largest / 448, 1.0)
# +     dist.all_reduce(scale, dist.ReduceOp.MAX, group=group)

# %% wrong · the whole weight is asked in float32
# -     return torch.cat(parts).float() * scale
# +     return (torch.cat(parts).float() * scale).bfloat16()

# %% wrong · along dimension 0
# -     return torch.cat(parts).float() * scale
# +     return torch.stack(parts).float() * scale

# %% wrong · this rank's own shard is returned unrounded
# -     return torch.cat(parts).float() * scale
# +     parts = [part.float() * scale for part in parts]
# +     parts[dist.get_rank(group)] = shard
# +     return torch.cat(parts)

# %% wrong · rounded to E5M2
# -     elements = (shard / scale).to(torch.float8_e4m3fn)
# +     elements = (shard / scale).to(torch.float8_e5m2)

# %% wrong · a shard may have one dimension, or three
# -     largest = shard.abs().max()
# +     rows, columns = shard.shape
# +     largest = shard.abs().max()
