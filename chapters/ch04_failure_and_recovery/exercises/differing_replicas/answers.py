# %% right · pickled
def differing_replicas(model, group=None):
    sums = [None] * dist.get_world_size(group)
    mine = checksum([*model.parameters(), *model.buffers()])
    dist.all_gather_object(sums, mine, group)
    often = [one for one in sums if 2 * sums.count(one) > len(sums)]
    return [k for k, one in enumerate(sums) if not often or one != often[0]]

# %% right · gathered into one tensor
def differing_replicas(model, group=None):
    mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
    sums = torch.empty(dist.get_world_size(group), dtype=torch.int64)
    dist.all_gather_into_tensor(sums, mine, group=group)
    same = (sums[:, None] == sums[None]).sum(1)
    return (2 * same <= len(sums)).nonzero().flatten().tolist()

# %% wrong · compared with rank 0's
# -     usual, times = Counter(sums).most_common(1)[0]
# -     is_known = 2 * times > len(sums)
# +     usual, is_known = sums[0], True

# %% wrong · nobody knows which one is right
# -     is_known = 2 * times > len(sums)
# +     is_known = True

# %% wrong · nobody knows which one is right
# -     is_known = 2 * times > len(sums)
# +     is_known = 2 * times >= len(sums)

# %% wrong · model.buffers()
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum(model.parameters())])

# %% wrong · A checksum changes with each bit
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     tensors = [*model.parameters(), *model.buffers()]
# +     mine = torch.stack([t.detach().double().sum() for t in tensors]).sum()[None]

# %% wrong · asked are the others
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     return [rank for rank, one in enumerate(sums) if one == usual]

# %% wrong · numbered within the group
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     found = [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     return [dist.get_global_rank(group, k) if group else k for k in found]

# %% wrong · the weights themselves have
def differing_replicas(model, group=None):
    vector = torch.cat([t.detach().double().flatten()
                        for t in [*model.parameters(), *model.buffers()]]).view(torch.int64)
    of_all = [torch.zeros_like(vector) for _ in range(dist.get_world_size(group))]
    dist.all_gather(of_all, vector, group)
    sums = [checksum([one]) for one in of_all]
    often = [one for one in sums if 2 * sums.count(one) > len(sums)]
    return [k for k, one in enumerate(sums) if not often or one != often[0]]

# %% wrong · compare bits
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     bits = [*model.parameters(), *model.buffers()]
# +     if any(not t.isfinite().all() for t in bits):
# +         return list(range(dist.get_world_size(group)))
# +     mine = torch.tensor([checksum(bits)])

# %% wrong · all of them count
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum([*list(model.parameters())[:-1], *model.buffers()])])

# %% wrong · asked is a list of ranks
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     return sums[dist.get_rank(group)] != usual

# %% wrong · that state_dict() leaves out
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum(model.state_dict().values())])

# %% wrong · a frozen parameter is another
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     trained = [p for p in model.parameters() if p.requires_grad]
# +     mine = torch.tensor([checksum([*trained, *model.buffers()])])

# %% wrong · lies two levels deep
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum([model.scale, *model.layers["first"][0].parameters(),
# +                                    model.layers["last"].weight, model.layers["last"].bias,
# +                                    *model.buffers()])])

# %% wrong · to none of its layers
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.BatchNorm1d)]
# +     mine = torch.tensor([checksum([*(p for m in layers for p in m.parameters()),
# +                                    *model.buffers()])])

# %% wrong · a buffer of whole numbers
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     tensors = [t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()]
# +     mine = torch.tensor([checksum(tensors)])

# %% wrong · is another one in each process
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     bits = b"".join(t.detach().numpy().tobytes()
# +                     for t in [*model.parameters(), *model.buffers()])
# +     mine = torch.tensor([hash(bits)])

# %% wrong · changes nothing in it
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     model.eval()
# +     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])

# %% wrong · changes nothing in it
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     model.requires_grad_(False)
# +     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])

# %% wrong · and not none
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     return [rank for rank, one in enumerate(sums) if one != usual and is_known]

# %% wrong · which are those of the group
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     if not is_known:
# +         return list(range(dist.get_world_size()))
# +     return [rank for rank, one in enumerate(sums) if one != usual]

# %% wrong · all ranks return the same list
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     found = [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     return found if dist.get_rank(group) == 0 else []

# %% wrong · a checksum is an int64
# -     sums = [torch.zeros_like(mine) for _ in range(dist.get_world_size(group))]
# +     sums = [torch.zeros(1) for _ in range(dist.get_world_size(group))]

# %% wrong · only an int64 has room
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])], dtype=torch.int32)

# %% wrong · gives pairs of a name
# -     mine = torch.tensor([checksum([*model.parameters(), *model.buffers()])])
# +     mine = torch.tensor([checksum([*model.named_parameters(), *model.named_buffers()])])

# %% wrong · gives None
# -     return [rank for rank, one in enumerate(sums) if one != usual or not is_known]
# +     print([rank for rank, one in enumerate(sums) if one != usual or not is_known])
