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
# +         total = y

# %% wrong · before it was copied
# -         total = y.clone()
# -         dist.all_reduce(total)
# -         return total
# +         dist.all_reduce(y)
# +         return y.clone()

# %% wrong · What is in that memory by then
# -         total = y.clone()
# +         total = y.detach()

# %% wrong · after sigmoid not
class SumOfExperts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(y > 0)
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]

# %% wrong · it is n times too large
# -         return gradient
# +         gradient = gradient.clone()
# +         dist.all_reduce(gradient)
# +         return gradient

# %% wrong · by each of its summands is 1
# -         return gradient
# +         return gradient / dist.get_world_size()

# %% wrong · backward returns None
# -         return gradient
# +         gradient.clone()

# %% wrong · leaves the sum in the copy
# -         return total
# +         return y + 0

# %% wrong · asked is the sum
# -         return total
# +         return total / dist.get_world_size()

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
