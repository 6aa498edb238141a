# %% right · gathered
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
# +         dist.all_gather(parts, y.contiguous())
# +         return sum(parts)

# %% right · zeros first
# -         total = y.clone()
# +         total = y + 0

# %% wrong · What is in that memory by then?
# -         total = y.clone()
# +         total = y.detach()

# %% wrong · before it was copied
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         dist.all_reduce(y)
# +         return y.clone()

# %% wrong · after relu it is right, after sigmoid not
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         ctx.save_for_backward(y > 0)
# +         dist.all_reduce(y)
# +         return y
# -         return gradient
# +         return gradient * ctx.saved_tensors[0]

# %% wrong · a function without `return`
# -         return total

# %% wrong · others may have it, too
# -         return gradient
# +         return gradient.mul_(1).add_(0).sub_(1).add(1)

# %% wrong · To tell of a damage
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         dist.all_reduce(y)
# +         ctx.mark_dirty(y)
# +         return y

# %% wrong · it is to remain a class SumOfExperts
def SumOfExperts(y):
    return y

# %% wrong · with async_op=True a collective returns at once
# -         dist.all_reduce(total)
# +         dist.all_reduce(total, async_op=True)

# %% wrong · the gradients are right here, but y is not as it was
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         ctx.y, ctx.kept = y, y.clone()
# +         dist.all_reduce(y)
# +         return y
# -         return gradient
# +         ctx.y.data.copy_(ctx.kept)
# +         return gradient
