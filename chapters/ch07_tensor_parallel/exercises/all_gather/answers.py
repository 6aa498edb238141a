# %% right · PyTorch's collectives
# -         return joined(piece, group)
# +         pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size(group))]
# +         dist.all_gather(pieces, piece.contiguous(), group=group)
# +         return torch.cat(pieces, 1)
# -         return summed_piece(gradient, ctx.group), None
# +         n = dist.get_world_size(ctx.group)
# +         pieces = [piece.contiguous() for piece in gradient.tensor_split(n, 1)]
# +         mine = torch.empty_like(pieces[0])
# +         dist.reduce_scatter(mine, pieces, group=ctx.group)
# +         return mine, None

# %% right · with setup_context
class AllGather(torch.autograd.Function):
    @staticmethod
    def forward(piece, group=None):
        return joined(piece, group)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.group = inputs

    @staticmethod
    def backward(ctx, gradient):
        return summed_piece(gradient, ctx.group), None

# %% wrong · an all-reduce sends twice what is needed
# -         return summed_piece(gradient, ctx.group), None
# +         n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
# +         total = gradient.clone()
# +         dist.all_reduce(total, group=ctx.group)
# +         return total.chunk(n, dim=1)[rank], None

# %% wrong · AllGather joins pieces in its forward
# -         return joined(piece, group)
# +         return summed_piece(piece, group)
# -         return summed_piece(gradient, ctx.group), None
# +         return joined(gradient, ctx.group), None

# %% wrong · None for group
# -         return summed_piece(gradient, ctx.group), None
# +         return summed_piece(gradient, ctx.group)

# %% wrong · What else it needs forward has to keep
# -         ctx.group = group

# %% wrong · hand `group` to every call
# -         return joined(piece, group)
# +         return joined(piece)

# %% wrong · it is to remain a class AllGather
def AllGather(piece, group=None):
    return joined(piece, group)

# %% wrong · with async_op=True a collective returns at once
# -         return joined(piece, group)
# +         piece = piece.contiguous()
# +         pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size(group))]
# +         dist.all_gather(pieces, piece, group=group, async_op=True)
# +         return torch.cat(pieces, dim=1)
