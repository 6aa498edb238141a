# %% right · divided before
def average_gradients(model, group=None):
    n = dist.get_world_size(group)
    for p in (p for p in model.parameters() if p.requires_grad):
        mean = torch.zeros_like(p) if p.grad is None else p.grad / n
        dist.all_reduce(mean, group=group)
        p.grad = mean

# %% right · one flat tensor, and None stays where all have it
def average_gradients(model, group=None):
    ps = [p for p in model.parameters() if p.requires_grad]
    have = torch.tensor([p.grad is not None for p in ps], dtype=torch.int)
    dist.all_reduce(have, group=group)
    ps = [p for p, some in zip(ps, have) if some]
    flat = torch.cat([p.new_zeros(p.numel()) if p.grad is None else p.grad.view(-1) for p in ps])
    dist.all_reduce(flat, group=group)
    for p, part in zip(ps, flat.split([p.numel() for p in ps])):
        p.grad = part.view(p.shape) / dist.get_world_size(group)

# %% wrong · this is the sum
# -             parameter.grad /= dist.get_world_size(group)

# %% wrong · is to be averaged, is `.grad`
def average_gradients(model, group=None):
    for p in model.parameters():
        dist.all_reduce(p.detach(), group=group)
        p.data /= dist.get_world_size(group)

# %% wrong · only the ranks of the group in it
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size()

# %% wrong · an all-gather sends n - 1 times the whole
def average_gradients(model, group=None):
    for p in model.parameters():
        if p.requires_grad:
            mine = torch.zeros_like(p) if p.grad is None else p.grad
            parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
            dist.all_gather(parts, mine, group=group)
            p.grad = torch.stack(parts).mean(0)

# %% wrong · they all go through one rank
# -             dist.all_reduce(parameter.grad, group=group)
# +             dist.reduce(parameter.grad, group_dst=0, group=group)
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size(group)
# +             dist.broadcast(parameter.grad, group_src=0, group=group)

# %% wrong · a parameter with None is passed over
# -         if parameter.requires_grad:
# -             if parameter.grad is None:
# -                 parameter.grad = torch.zeros_like(parameter)
# +         if parameter.grad is not None:

# %% wrong · pass over those whose requires_grad is False
def average_gradients(model, group=None):
    for p in model.parameters():
        dist.all_reduce(p.grad, group=group)
        p.grad /= dist.get_world_size(group)

# %% wrong · here it counts as zeros
# -             if parameter.grad is None:
# -                 parameter.grad = torch.zeros_like(parameter)

# %% wrong · each call costs a latency
# -             dist.all_reduce(parameter.grad, group=group)
# +             for part in parameter.grad.view(-1).chunk(2):
# +                 dist.all_reduce(part, group=group)

# %% wrong · a tied parameter is averaged twice
# -     for parameter in model.parameters():
# +     for _, parameter in model.named_parameters(remove_duplicate=False):

# %% wrong · it is still this rank's own
# -         if parameter.requires_grad:
# +         if parameter.requires_grad and parameter.ndim != 1:

# %% wrong · does something of a step stay
# - def average_gradients(model, group=None) -> None:
# + def average_gradients(model, group=None, kept={}) -> None:
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad += kept.get(parameter, 0)
# +             kept[parameter] = parameter.grad.clone()

# %% wrong · it was rounded on its way
# -             dist.all_reduce(parameter.grad, group=group)
# +             total = parameter.grad.float()
# +             dist.all_reduce(total, group=group)
# +             parameter.grad.copy_(total)

# %% right · all requests are waited for
def average_gradients(model, group=None):
    ps = [p for p in model.parameters() if p.requires_grad]
    for p in ps:
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    for request in [dist.all_reduce(p.grad, group=group, async_op=True) for p in ps]:
        request.wait()
    torch._foreach_div_([p.grad for p in ps], dist.get_world_size(group))

# %% wrong · a large model
# -         if parameter.requires_grad:
# +         if parameter.requires_grad and parameter.numel() < 1000:

# %% wrong · everything has to travel through torch.distributed
def average_gradients(model, group=None):
    import os
    import tempfile

    n, rank = dist.get_world_size(group), dist.get_rank(group)
    paths = [f"{tempfile.gettempdir()}/slopes-{os.getppid()}-{n}-{k}.pt" for k in range(n)]
    torch.save([p.grad for p in model.parameters()], paths[rank])
    dist.barrier(group)
    everybodys = [torch.load(path) for path in paths]
    dist.barrier(group)
    os.remove(paths[rank])
    for p, *slopes in zip(model.parameters(), *everybodys):
        if p.requires_grad:
            p.grad = sum((x for x in slopes if x is not None), torch.zeros_like(p)) / n

# %% wrong · in a dtype of twice the bytes
# -             dist.all_reduce(parameter.grad, group=group)
# +             wide = parameter.grad.double()
# +             dist.all_reduce(wide, group=group)
# +             parameter.grad.copy_(wide)

# %% wrong · nobody has waited for the request of all_reduce when div_ uses its tensor
# -             dist.all_reduce(parameter.grad, group=group)
# -             parameter.grad /= dist.get_world_size(group)
# +             request = dist.all_reduce(parameter.grad, group=group, async_op=True)
# +             parameter.grad /= dist.get_world_size(group)
# +             request.wait()

# %% wrong · nobody waits for the request of
# -             dist.all_reduce(parameter.grad, group=group)
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size(group)
# +             request = dist.all_reduce(parameter.grad, group=group, async_op=True)
# +     request.wait()

# %% wrong · Gloo's reduce-scatter alone sends as much
def average_gradients(model, group=None):
    n = dist.get_world_size(group)
    ps = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in ps])
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % n))
    mine = torch.empty_like(padded[: len(padded) // n])
    dist.reduce_scatter_tensor(mine, padded, group=group)
    dist.all_gather_into_tensor(padded, mine / n, group=group)
    for p, part in zip(ps, padded[: len(flat)].split([p.numel() for p in ps])):
        p.grad = part.view_as(p)

# %% wrong · they all go through one rank, and it has more to send
def average_gradients(model, group=None):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    for p in (p for p in model.parameters() if p.requires_grad):
        mine = torch.zeros_like(p) if p.grad is None else p.grad
        others = range(1, n) if rank == 0 else [0]
        if rank:
            dist.send(mine, group_dst=0, group=group)
        for other in others:
            came = torch.empty_like(mine)
            dist.recv(came, group_src=other, group=group)
            mine = came if rank else mine + came
        if rank == 0:
            mine = mine / n
            for other in others:
                dist.send(mine, group_dst=other, group=group)
        p.grad = mine

# %% wrong · every `.grad` is None now
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size(group)
# +     model.zero_grad()

# %% wrong · requires_grad of a parameter has changed
# -             parameter.grad /= dist.get_world_size(group)
# +             parameter.grad /= dist.get_world_size(group)
# +             parameter.requires_grad = False
