# %% right · gradients are parts of the bucket
def average_buckets(buckets, group=None):
    for bucket in buckets:
        flat = flatten(bucket).div_(dist.get_world_size(group))
        dist.all_reduce(flat, group=group)
        for p in bucket:
            p.grad, flat = flat[: p.numel()].view_as(p), flat[p.numel() :]

# %% right · from the last bucket, with AVG
# - for bucket in buckets:
# + for bucket in reversed(buckets):
# - group=group)
# -         flat /= dist.get_world_size(group)
# + group=group, op=dist.ReduceOp.AVG)

# %% wrong · this is the sum
# -         flat /= dist.get_world_size(group)

# %% wrong · an all-reduce of its own
# - for bucket in buckets:
# + for bucket in [[parameter] for bucket in buckets for parameter in bucket]:

# %% wrong · all buckets travel as one
# - for bucket in buckets:
# + for bucket in [sum(buckets, [])]:

# %% wrong · they come back to the wrong parameters
# -         unflatten(flat, bucket)
# +         unflatten(flat, bucket[::-1])

# %% wrong · here it counts as zeros
# -         flat = flatten(bucket)
# +         flat = torch.cat([p.grad.view(-1) for p in bucket])

# %% wrong · a parameter with None is passed over
# - for bucket in buckets:
# + for bucket in [[p for p in bucket if p.grad is not None] for bucket in buckets]:

# %% wrong · give it the shape of its parameter
# -         unflatten(flat, bucket)
# +         for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
# +             p.grad = part

# %% wrong · the list that was given had 5 entries, and has 0 now
# -     for bucket in buckets:
# +     while buckets:
# +         bucket = buckets.pop(0)

# %% wrong · the list that was given had 2 entries, and has 0 now
# -         unflatten(flat, bucket)
# +         unflatten(flat, bucket)
# +         bucket.clear()

# %% wrong · in a dtype of twice the bytes
# -         flat = flatten(bucket)
# +         flat = flatten(bucket).double()

# %% wrong · a large model
# -     for bucket in buckets:
# +     for bucket in buckets:
# +         if sum(p.numel() for p in bucket) > 1000:
# +             flat = flatten(bucket)
# +             dist.all_reduce(flat, group=group)
# +             continue

# %% wrong · this is the sum divided by 5
# -         flat /= dist.get_world_size(group)
# +         flat /= len(buckets)
