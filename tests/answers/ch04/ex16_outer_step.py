# %% right · all in one row
def outer_step(whole, mine, optimizer, group=None):
    n = dist.get_world_size(group)
    gone = torch.cat([(common - own).flatten() for common, own in zip(whole, mine)])
    dist.all_reduce(gone, group=group)
    pieces = (gone / n).split([common.numel() for common in whole])
    for common, piece in zip(whole, pieces):
        common.grad = piece.view(common.shape)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% right · sums of weights, and all under way at once
def outer_step(whole, mine, optimizer, group=None):
    n = dist.get_world_size(group)
    sums = [own.clone() for own in mine]
    for work in [dist.all_reduce(total, group=group, async_op=True) for total in sums]:
        work.wait()
    for k, total in enumerate(sums):
        whole[k].grad = whole[k].clone().sub_(total, alpha=1 / n)
    optimizer.step()
    optimizer.zero_grad()
    for k in range(len(mine)):
        mine[k][...] = whole[k]

# %% wrong · the sign is the other way round
# -             common.grad = common - own
# +             common.grad = own - common

# %% wrong · this is with the sum over the workers
# -             common.grad /= dist.get_world_size(group)
# +             pass

# %% wrong · the mean of the workers' weights
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        total = own.clone()
        dist.all_reduce(total, group=group)
        common.copy_(total / dist.get_world_size(group))
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · divide by dist.get_world_size(group)
# -             common.grad /= dist.get_world_size(group)
# +             common.grad /= dist.get_world_size()

# %% wrong · its own outer gradient
# -             dist.all_reduce(common.grad, group=group)
# -             common.grad /= dist.get_world_size(group)

# %% wrong · `mine` is still what this worker had made
# -             own.copy_(common)
# +             pass

# %% wrong · only gives the name to another tensor
# -             own.copy_(common)
# +             own = common.clone()

# %% wrong · changes the list alone
# -         for common, own in zip(whole, mine):
# -             own.copy_(common)
# +         mine[:] = [common.clone() for common in whole]

# %% wrong · share their memory now
# -             own.copy_(common)
# +             own.data = common.data

# %% wrong · Called for each tensor
# -             common.grad /= dist.get_world_size(group)
# -     optimizer.step()
# +             common.grad /= dist.get_world_size(group)
# +             optimizer.step()

# %% wrong · First all sums, then the step
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        common.grad = common - own
        dist.all_reduce(common.grad, group=group)
        common.grad /= dist.get_world_size(group)
        optimizer.step()
        common.grad = None
        own.copy_(common)

# %% wrong · First all sums, then the step
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        dist.all_reduce(own, group=group)
        own /= dist.get_world_size(group)
        common.grad = common - own
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · do not catch the error
def outer_step(whole, mine, optimizer, group=None):
    try:
        for common, own in zip(whole, mine):
            common.grad = common - own
            dist.all_reduce(common.grad, group=group)
            common.grad /= dist.get_world_size(group)
    except RuntimeError:
        return
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · as if there were no momentum
# -     optimizer.step()
# +     torch.optim.SGD(whole, **optimizer.defaults).step()

# %% wrong · are still in it
# -             common.grad = common - own
# -             dist.all_reduce(common.grad, group=group)
# -             common.grad /= dist.get_world_size(group)
# +             gone = common - own
# +             dist.all_reduce(gone, group=group)
# +             gone /= dist.get_world_size(group)
# +             common.grad = gone if common.grad is None else common.grad + gone

# %% wrong · who takes the step is optimizer.step()
# -     optimizer.step()

# %% wrong · Their sum is enough
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        of_all = [torch.zeros_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(of_all, own, group)
        common.grad = common - sum(of_all) / len(of_all)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)
