# %% right · in a thread
def sum_meanwhile(x, compute, group=None):
    import threading

    thread = threading.Thread(target=dist.all_reduce, args=(x,), kwargs={"group": group})
    thread.start()
    found = compute()
    thread.join()
    return found

# %% right · waits even if compute() raises
def sum_meanwhile(x, compute, group=None):
    work = dist.all_reduce(x, op=dist.ReduceOp.SUM, group=group, async_op=True)
    try:
        return compute()
    finally:
        work.wait()

# %% right · sums a copy
def sum_meanwhile(x, compute, group=None):
    total = x.clone()
    work = dist.all_reduce(total, group=group, async_op=True)
    result = compute()
    work.wait()
    x.copy_(total)
    return result

# %% wrong · it waits for the sum before it calls compute()
# -     result = compute()
# -     work.wait()
# +     work.wait()
# +     result = compute()

# %% wrong · it waits for the sum before it calls compute()
def sum_meanwhile(x, compute, group=None):
    dist.all_reduce(x, group=group)
    return compute()

# %% wrong · compute() runs before the sum has begun
def sum_meanwhile(x, compute, group=None):
    result = compute()
    dist.all_reduce(x, group=group)
    return result

# %% wrong · nobody has waited for the request of all_reduce
# -     work.wait()

# %% wrong · without async_op=True a collective waits
# - dist.all_reduce(x, group=group, async_op=True)
# + dist.all_reduce(x, group=group)

# %% wrong · call it once
# - return result
# + return compute()

# %% wrong · nothing was returned
# -     return result

# %% wrong · this is x
# - return result
# + return x

# %% wrong · the sum has to end up in x itself
# - work = dist.all_reduce(x, group=group, async_op=True)
# + work = dist.all_reduce(x.clone(), group=group, async_op=True)

# %% wrong · this is the mean over the ranks
# -     return result
# +     x.copy_(x / dist.get_world_size(group))
# +     return result

# %% wrong · x has been added up twice
# -     return result
# +     dist.all_reduce(x, group=group)
# +     return result

# %% wrong · hand `group` to every call
# - dist.all_reduce(x, group=group, async_op=True)
# + dist.all_reduce(x, async_op=True)

# %% wrong · compute() takes no arguments
# - compute()
# + compute(x)

# %% wrong · x has its numbers elsewhere
# -     return result
# +     x.data = x.clone()
# +     return result

# %% right · a future
def sum_meanwhile(x, compute, group=None):
    future = dist.all_reduce(x, group=group, async_op=True).get_future()
    result = compute()
    future.wait()
    return result

# %% wrong · nobody has waited for the request of all_reduce
# -     work.wait()
# +     work.get_future()

# %% wrong · and no other call
def sum_meanwhile(x, compute, group=None):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    work = dist.all_gather(parts, x, group=group, async_op=True)
    result = compute()
    work.wait()
    x.copy_(sum(parts))
    return result

# %% wrong · in another dtype than it has
def sum_meanwhile(x, compute, group=None):
    total = x.float()
    work = dist.all_reduce(total, group=group, async_op=True)
    result = compute()
    work.wait()
    x.copy_(total)
    return result

# %% wrong · nothing was returned
# -     return result
# +     return result or None

# %% wrong · it waits for the sum before it calls compute()
# -     result = compute()
# +     if dist.get_rank(group) > 0:
# +         work.wait()
# +     result = compute()
