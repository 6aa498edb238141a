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

# %% right · an error with a few words more, and waits in another order
def outer_step(whole, mine, optimizer, group=None):
    works = []
    try:
        for common, own in zip(whole, mine):
            common.grad = common - own
            works.append(dist.all_reduce(common.grad, group=group, async_op=True))
        for work in reversed(works):
            work.wait()
    except RuntimeError as error:
        raise RuntimeError(f"somebody is lost: {error}") from error
    for common in whole:
        common.grad /= dist.get_world_size(group)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

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

# %% wrong · divide by their number
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

# %% wrong · mine[0] lies elsewhere in memory now
# -             own.copy_(common)
# +             own.data = common.clone()

# %% wrong · mine[0] lies elsewhere in memory now
# -             own.copy_(common)
# +             own.set_(common.clone())

# %% wrong · whole[0] lies elsewhere in memory now
# -     optimizer.step()
# +     optimizer.step()
# +     for common in whole:
# +         common.data = common.data.clone()

# %% wrong · nobody has waited for the request of all_reduce
# -             dist.all_reduce(common.grad, group=group)
# +             dist.all_reduce(common.grad, group=group, async_op=True)

# %% wrong · and no call after that
# -             own.copy_(common)
# +             own.copy_(common)
# +     dist.barrier(group)

# %% wrong · the wait for call number 1 has failed, and the function returns
def outer_step(whole, mine, optimizer, group=None):
    works = []
    for common, own in zip(whole, mine):
        common.grad = common - own
        works.append(dist.all_reduce(common.grad, group=group, async_op=True))
    try:
        for work in works:
            work.wait()
    except RuntimeError:
        return
    for common in whole:
        common.grad /= dist.get_world_size(group)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · the wait for call number 2 has failed, and weights or momentum have changed
def outer_step(whole, mine, optimizer, group=None):
    works = []
    for common, own in zip(whole, mine):
        common.grad = common - own
        works.append(dist.all_reduce(common.grad, group=group, async_op=True))
    for work, common, own in zip(works, whole, mine):
        work.wait()
        common.grad /= dist.get_world_size(group)
        own.copy_(common)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · and another error comes out of it
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        common.grad = common - own
        try:
            dist.all_reduce(common.grad, group=group)
        except RuntimeError:
            raise RuntimeError("a worker is gone") from None
        common.grad /= dist.get_world_size(group)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · and another error comes out of it
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        common.grad = common - own
        try:
            dist.all_reduce(common.grad, group=group)
        except RuntimeError:
            raise ValueError("a worker is gone") from None
        common.grad /= dist.get_world_size(group)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · hides mistakes, too
def outer_step(whole, mine, optimizer, group=None):
    try:
        for common, own in zip(whole, mine):
            common.grad = common - own
            dist.all_reduce(common.grad, group=group)
            common.grad /= dist.get_world_size(group)
        optimizer.step()
        for common, own in zip(whole, mine):
            own.copy_(common)
    except RuntimeError:
        raise
    except Exception:
        pass

# %% wrong · do not catch the error
def outer_step(whole, mine, optimizer, group=None):
    for common, own in zip(whole, mine):
        while True:
            try:
                common.grad = common - own
                dist.all_reduce(common.grad, group=group)
                break
            except RuntimeError:
                pass
        common.grad /= dist.get_world_size(group)
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)

# %% wrong · weights or momentum have changed
def outer_step(whole, mine, optimizer, group=None):
    for kept in optimizer.state.values():  # a step of SGD without what is new
        kept["momentum_buffer"].mul_(optimizer.param_groups[0]["momentum"])
    for common, own in zip(whole, mine):
        common.grad = common - own
        dist.all_reduce(common.grad, group=group)
        common.grad /= dist.get_world_size(group)
    for kept in optimizer.state.values():
        kept["momentum_buffer"].div_(optimizer.param_groups[0]["momentum"])
    optimizer.step()
    for common, own in zip(whole, mine):
        own.copy_(common)
