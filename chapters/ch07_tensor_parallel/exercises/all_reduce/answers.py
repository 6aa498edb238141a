# %% right · a copy is added up
# -         return total(x, group)
# +         y = total(x.detach().clone(), group=group)
# +         return y
# -         return gradient, None, None
# +         return gradient, None, None, None

# %% right · the gradient's view
# -         return total(x, group)
# +         ctx.set_materialize_grads(False)
# +         return total(x, group)
# -         return gradient, None, None
# +         return gradient.view_as(gradient), None, None

# %% wrong · may have kept it for its backward
# -         return total(x, group)
# +         dist.all_reduce(x, group=group)
# +         return x

# %% wrong · mark_dirty tells autograd
# -         return total(x, group)
# +         dist.all_reduce(x, group=group)
# +         ctx.mark_dirty(x)
# +         return x

# %% wrong · n times too much
# -         return total(x, group)
# +         ctx.group = group
# +         return total(x, group)
# -         return gradient, None, None
# +         return summed(gradient, ctx.group), None, None

# %% wrong · the mean of equal ones
# -         return total(x, group)
# +         ctx.group = group
# +         return total(x, group)
# -         return gradient, None, None
# +         return summed(gradient, ctx.group) / dist.get_world_size(ctx.group), None, None

# %% wrong · another way to add up
# -         return total(x, group)
# +         return summed(x, group)

# %% wrong · also where there is one rank alone
# -         return total(x, group)
# +         return total(x, group) if dist.get_world_size(group) > 1 else x

# %% wrong · the first rank alone has the sum
# -         return total(x, group)
# +         y = x.clone()
# +         dist.reduce(y, group_dst=0, group=group)
# +         return y

# %% wrong · with async_op=True a collective returns at once
# -         return total(x, group)
# +         y = x.clone()
# +         dist.all_reduce(y, group=group, async_op=True)
# +         return y
