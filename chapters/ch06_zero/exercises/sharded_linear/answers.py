# %% right · into the whole buffer at once
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         dist.all_gather_into_tensor(ctx.buffer.view(-1), shard)

# %% right · into a tensor of its own, after the other
# -         n = dist.get_world_size()
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         n = dist.get_world_size()
# -         return gradient @ ctx.buffer, mean, None
# +         weight = torch.empty_like(ctx.buffer)
# +         dist.all_gather(list(weight.view(-1).chunk(n)), shard)
# +         return gradient @ weight, mean, None

# %% right · an all-reduce, and what is not needed is left out
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather_into_tensor(buffer.view(-1), shard)
        ctx.x, ctx.shard, ctx.buffer = x, shard, buffer
        return F.linear(x, buffer)

    @staticmethod
    def backward(ctx, slope):
        rank, n = dist.get_rank(), dist.get_world_size()
        dist.all_gather_into_tensor(ctx.buffer.view(-1), ctx.shard)
        whole = slope.T @ ctx.x
        dist.all_reduce(whole)
        of_x = slope @ ctx.buffer if ctx.needs_input_grad[0] else None
        return of_x, whole.view(-1).chunk(n)[rank] / n, None

# %% wrong · as if the slopes of all layers passed through the weight of layer 3
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)

# %% wrong · splits the weights so that nobody
# -         ctx.save_for_backward(x, shard)
# +         ctx.save_for_backward(x, shard, buffer.clone())
# -         x, shard = ctx.saved_tensors
# +         x, shard, weight = ctx.saved_tensors
# -         n = dist.get_world_size()
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         n = dist.get_world_size()
# -         return gradient @ ctx.buffer, mean, None
# +         return gradient @ weight, mean, None

# %% wrong · need not be kept
# -     def forward(ctx, x, shard, buffer):
# +     def forward(ctx, x, shard, buffer):
# +         buffer = torch.empty_like(buffer)

# %% wrong · half of the sum, however many ranks there are
# -         dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
# +         dist.reduce_scatter(mean, list((gradient.T @ x / 2).view(-1).chunk(n)))

# %% wrong · the parts are in the order of the ranks
# -         dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
# +         dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n))[::-1])

# %% wrong · is the sum over the ranks
# -         dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
# +         dist.reduce_scatter(mean, list((gradient.T @ x).view(-1).chunk(n)))

# %% wrong · the forward was right
# -         return x @ buffer.T
# +         return torch.tanh(x @ buffer.T)

# %% wrong · has kept the buffer itself
# -         ctx.save_for_backward(x, shard)
# +         ctx.save_for_backward(x, shard, buffer)
# -         x, shard = ctx.saved_tensors
# +         x, shard, weight = ctx.saved_tensors
# -         n = dist.get_world_size()
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         n = dist.get_world_size()
# -         return gradient @ ctx.buffer, mean, None
# +         return gradient @ weight, mean, None

# %% wrong · a part as long as the shard
# -         return gradient @ ctx.buffer, mean, None
# +         return gradient @ ctx.buffer, gradient.T @ x, None

# %% wrong · one for each argument of forward
# -         return gradient @ ctx.buffer, mean, None
# +         return gradient @ ctx.buffer, mean

# %% wrong · they have gradients
# -         return gradient @ ctx.buffer, mean, None
# +         return gradient @ ctx.buffer, None, None

# %% wrong · buffer.view(-1).chunk(n)
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         dist.all_gather(list(ctx.buffer.chunk(n)), shard)

# %% wrong · what forward has put there
# -         ctx.buffer = buffer

# %% wrong · in the backward as well
# -         dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
# +         if dist.get_rank():
# +             dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)

# %% wrong · it is to remain a class ShardedLinear
def ShardedLinear(x, shard, buffer):
    return x @ buffer.T

# %% wrong · each layer keeps its weight until its backward
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather(list(buffer.view(-1).chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard); w = buffer.clone(); ctx.back = lambda g: g @ w
        return x @ buffer.T
    @staticmethod
    def backward(ctx, gradient):
        x, shard = ctx.saved_tensors
        n = dist.get_world_size()
        mean = torch.empty_like(shard)
        dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
        return ctx.back(gradient), mean, None

# %% wrong · What can be had again need not be
STACK = []
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather(list(buffer.view(-1).chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard); STACK.append(buffer.clone())
        return x @ buffer.T
    @staticmethod
    def backward(ctx, gradient):
        x, shard = ctx.saved_tensors
        n = dist.get_world_size()
        mean = torch.empty_like(shard)
        dist.reduce_scatter(mean, list((gradient.T @ x / n).view(-1).chunk(n)))
        return gradient @ STACK.pop(), mean, None
