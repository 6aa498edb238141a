# %% right · one long vector of the parameters, then the buffers
def start_equal(model, group=None):
    long = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    dist.broadcast(long, group_src=0, group=group)
    torch.nn.utils.vector_to_parameters(long, model.parameters())
    for buffer in model.buffers():
        dist.broadcast(buffer, group_src=0, group=group)

# %% right · as objects
def start_equal(model, group=None):
    tensors = [*model.parameters(), *model.buffers()]
    values = [[tensor.detach() for tensor in tensors]]
    dist.broadcast_object_list(values, group_src=0, group=group)
    with torch.no_grad():
        for tensor, value in zip(tensors, values[0]):
            tensor.copy_(value)

# %% right · along a tree, with data
def start_equal(model, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    for x in [*model.buffers(), *(p.data for p in model.parameters())]:
        reach = 1
        while reach < n:
            if rank < reach and rank + reach < n:
                dist.send(x, group_dst=rank + reach, group=group)
            elif reach <= rank < 2 * reach:
                dist.recv(x, group_src=rank - reach, group=group)
            reach *= 2

# %% wrong · persistent=False is missing in state_dict()
def start_equal(model, group=None):
    for t in model.state_dict().values():
        dist.broadcast(t, group_src=0, group=group)

# %% wrong · of which there is no mean
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         dist.all_reduce(tensor.detach(), group=group)
# +         tensor.data /= dist.get_world_size(group)

# %% wrong · everybody draws the same new weights
def start_equal(model, group=None):
    torch.manual_seed(0)
    for p in model.parameters():
        p.data.normal_()

# %% wrong · The group's first member is meant
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         dist.broadcast(tensor.detach(), src=0, group=group)

# %% wrong · in a group of some ranks it is not
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         dist.broadcast(tensor.detach(), src=0)

# %% wrong · The source is one rank for all
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         dist.broadcast(tensor.detach(), src=dist.get_rank())

# %% wrong · leave the object in its place
def start_equal(model, group=None):
    state = [model.state_dict()]
    dist.broadcast_object_list(state, group_src=0, group=group)
    model.load_state_dict(state[0], assign=True)
    for b in model.buffers():
        dist.broadcast(b, group_src=0, group=group)

# %% wrong · a frozen parameter stays frozen
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +     model.requires_grad_(True)

# %% wrong · there are no gradients yet
def start_equal(model, group=None):
    for p in model.parameters():
        dist.broadcast(p.grad, group_src=0, group=group)

# %% wrong · which shares their memory
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         value = tensor.detach().clone()
# +         dist.broadcast(value, group_src=0, group=group)
# +         tensor.copy_(value)

# %% wrong · this is a star
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         if dist.get_rank(group):
# +             dist.recv(tensor.detach(), group_src=0, group=group)
# +             continue
# +         for peer in range(1, dist.get_world_size(group)):
# +             dist.send(tensor.detach(), group_dst=peer, group=group)

# %% wrong · everybody's weights travel to everybody
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         everybodys = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
# +         dist.all_gather(everybodys, tensor.detach(), group=group)
# +         tensor.data.copy_(everybodys[0])

# %% wrong · an all-reduce sends everything twice
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         if dist.get_rank(group):
# +             tensor.detach().zero_()
# +         dist.all_reduce(tensor.detach(), group=group)

# %% wrong · a tied parameter travels twice
# -     for tensor in [*model.parameters(), *model.buffers()]:
# +     for _, tensor in [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]:

# %% wrong · some of them travel several times
# -     for tensor in [*model.parameters(), *model.buffers()]:
# +     for tensor in [x for m in model.modules() for x in [*m.parameters(), *m.buffers()]]:

# %% wrong · for each element of a tensor
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         for x in tensor.detach().view(-1):
# +             dist.broadcast(x, group_src=0, group=group)

# %% wrong · it was rounded on its way
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         value = tensor.detach().float()
# +         dist.broadcast(value, group_src=0, group=group)
# +         tensor.data.copy_(value)

# %% wrong · a large model
# -     for tensor in [*model.parameters(), *model.buffers()]:
# +     for tensor in (t for t in [*model.parameters(), *model.buffers()] if t.numel() < 1000):

# %% wrong · everything has to travel through torch.distributed
def start_equal(model, group=None):
    import os
    import tempfile

    path = f"{tempfile.gettempdir()}/start-{os.getppid()}.pt"
    tensors = [t.detach() for t in [*model.parameters(), *model.buffers()]]
    if dist.get_rank(group) == 0:
        torch.save(tensors, path)
    dist.barrier(group)
    for tensor, value in zip(tensors, torch.load(path)):
        tensor.copy_(value)
    dist.barrier(group)
    if dist.get_rank(group) == 0:
        os.remove(path)

# %% wrong · in a dtype of twice the bytes
# -         dist.broadcast(tensor.detach(), group_src=0, group=group)
# +         wide = tensor.detach().double()
# +         dist.broadcast(wide, group_src=0, group=group)
# +         tensor.detach().copy_(wide)

# %% wrong · dropout would be the same on all ranks
# -     for tensor in [*model.parameters(), *model.buffers()]:
# +     torch.manual_seed(0)
# +     for tensor in [*model.parameters(), *model.buffers()]:

# %% wrong · the model is in another mode than before
# -     for tensor in [*model.parameters(), *model.buffers()]:
# +     model.train()
# +     for tensor in [*model.parameters(), *model.buffers()]:

# %% wrong · it makes a DistributedDataParallel
def start_equal(model, group=None):
    DistributedDataParallel(model, process_group=group)

# %% wrong · of the broadcasts
# - group=group)
# + group=group, async_op=True)

# %% right · each broadcast is waited for at the end
def start_equal(model, group=None):
    tensors = [t.data for t in [*model.parameters(), *model.buffers()]]
    requests = [dist.broadcast(t, group_src=0, group=group, async_op=True) for t in tensors]
    for request in requests:
        request.wait()

# %% right · with the function that DistributedDataParallel uses
def start_equal(model, group=None):
    tensors = [t.detach() for t in [*model.parameters(), *model.buffers()]]
    dist._broadcast_coalesced(group or dist.group.WORLD, tensors, 2**28, 0)
