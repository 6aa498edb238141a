# %% right · pairs of a copy and its Work
def sum_in_flight(tensors, group=None):
    begun = []
    for x in tensors:
        copy = x.detach().clone()
        begun.append((copy, dist.all_reduce(copy, group=group, async_op=True)))
    return [(work.wait(), copy)[1] for copy, work in begun]

# %% right · waits for the last one first
# -     sums = [x.clone() for x in tensors]
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# -     for work in works:
# -         work.wait()
# +     sums, works = [], []
# +     for x in tensors:
# +         sums.append(torch.empty_like(x).copy_(x))
# +         works.append(dist.all_reduce(sums[-1], group=group, async_op=True))
# +     while works:
# +         works.pop().wait()

# %% wrong · nobody has waited for the request of all_reduce when copy_ uses its tensor
# -     sums = [x.clone() for x in tensors]
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# -     for work in works:
# -         work.wait()
# +     sums, buffer = [], torch.empty_like(tensors[0])
# +     for x in tensors:
# +         buffer.copy_(x)
# +         work = dist.all_reduce(buffer, group=group, async_op=True)
# +         sums.append(buffer)
# +     work.wait()

# %% wrong · every entry is the last sum
# -     sums = [x.clone() for x in tensors]
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# -     for work in works:
# -         work.wait()
# +     sums, buffer = [], torch.empty_like(tensors[0])
# +     for x in tensors:
# +         buffer.copy_(x)
# +         dist.all_reduce(buffer, group=group)
# +         sums.append(buffer)

# %% wrong · nobody has waited for the request of all_reduce
# -     for work in works:
# -         work.wait()
# +     works[-1].wait()

# %% wrong · nobody has waited for the request of all_reduce
# -     for work in works:
# -         work.wait()

# %% wrong · so that they do not overlap
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# -     for work in works:
# -         work.wait()
# +     for x in sums:
# +         dist.all_reduce(x, group=group, async_op=True).wait()

# %% wrong · so that they do not overlap
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# -     for work in works:
# -         work.wait()
# +     for x in sums:
# +         dist.all_reduce(x, group=group)

# %% wrong · the tensors themselves have been added up
# - sums = [x.clone() for x in tensors]
# + sums = list(tensors)

# %% wrong · there is no tensors[0]
# -     sums = [x.clone() for x in tensors]
# +     sums = [torch.empty_like(tensors[0]).copy_(tensors[0]), *(x.clone() for x in tensors[1:])]

# %% wrong · a buffer that has the shape of one of them
# - sums = [x.clone() for x in tensors]
# + sums = [torch.empty_like(tensors[0]).copy_(x) for x in tensors]

# %% wrong · nothing was returned
# -     return sums

# %% wrong · these are the rank's own tensors
# -     works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
# +     works = [dist.all_reduce(x.clone(), group=group, async_op=True) for x in sums]

# %% wrong · these are the means
# -     return sums
# +     return [x / dist.get_world_size(group) for x in sums]

# %% wrong · hand `group` to every call
# - dist.all_reduce(x, group=group, async_op=True) for x in sums]
# + dist.all_reduce(x, async_op=True) for x in sums]

# %% wrong · this is one sum
# - return sums
# + return sums[-1] if sums else sums

# %% right · futures
def sum_in_flight(tensors, group=None):
    sums = [x.clone() for x in tensors]
    works = [dist.all_reduce(x, group=group, async_op=True) for x in sums]
    torch.futures.wait_all([work.get_future() for work in works])
    return sums

# %% wrong · nobody has waited for the request of all_reduce
# -     for work in works:
# -         work.wait()
# +     futures = [work.get_future() for work in works]

# %% wrong · return a list
# -     return sums
# +     return tuple(sums)

# %% wrong · nobody has waited for the request of all_reduce
# -     sums = [x.clone() for x in tensors]
# +     import copy
# +     sums = copy.deepcopy(tensors)

# %% wrong · keep its place in the list
# -     sums = [x.clone() for x in tensors]
# +     sums = [x.clone() for x in tensors if x.numel()]
