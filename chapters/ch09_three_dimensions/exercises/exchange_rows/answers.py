# %% right · with lists of tensors
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive, group=None):
        ctx.lists, ctx.group = (send, receive), group
        y = x.new_empty(sum(receive), *x.shape[1:])
        dist.all_to_all_single(y, x.contiguous(), receive, send, group=group)
        return y

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.lists
        x = gradient.new_empty(sum(send), *gradient.shape[1:])
        dist.all_to_all_single(x, gradient.contiguous(), send, receive, group=ctx.group)
        return x, None, None, None

# %% right · the backward is an exchange, too
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive, group=None):
        ctx.back = receive, send, group
        return exchanged(x, send, receive, group)

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient, *ctx.back), None, None, None

# %% wrong · the two lists change places
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         return exchanged(gradient, ctx.send, ctx.receive, ctx.group), None, None, None

# %% wrong · one value for each argument
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         return exchanged(gradient, ctx.receive, ctx.send, ctx.group)

# %% wrong · gradients have to travel, too
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         return gradient, None, None, None

# %% wrong · no gradient came back
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         exchanged(gradient, ctx.receive, ctx.send, ctx.group)
# +         return None, None, None, None

# %% wrong · hand `group` to every call
# -         ctx.send, ctx.receive, ctx.group = send, receive, group
# -         return exchanged(x, send, receive, group)
# +         ctx.send, ctx.receive, ctx.group = send, receive, None
# +         return exchanged(x, send, receive)

# %% wrong · nothing has to be divided
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         n = dist.get_world_size(ctx.group)
# +         return exchanged(gradient, ctx.receive, ctx.send, ctx.group) / n, None, None, None

# %% wrong · keep in ctx
# -         ctx.send, ctx.receive, ctx.group = send, receive, group
# -         return exchanged(x, send, receive, group)
# +         ctx.receive, ctx.group = receive, group
# +         return exchanged(x, send, receive, group)

# %% wrong · in the backward as well
# -         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
# +         if not sum(ctx.receive):
# +             return gradient.new_zeros(sum(ctx.send), *gradient.shape[1:]), None, None, None
# +         return exchanged(gradient, ctx.receive, ctx.send, ctx.group), None, None, None

# %% wrong · these are the rank's own rows
# -         ctx.send, ctx.receive, ctx.group = send, receive, group
# -         return exchanged(x, send, receive, group)
# +         ctx.send, ctx.receive, ctx.group = send, receive, group
# +         return x.clone()

# %% wrong · receives none
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive, group):
        ctx.lists = send, receive, group
        if sum(send) == 0 and sum(receive) == 0:
            return x.new_zeros(0, *x.shape[1:])
        return exchanged(x, send, receive, group)

    @staticmethod
    def backward(ctx, gradient):
        send, receive, group = ctx.lists
        if sum(send) == 0 and sum(receive) == 0:
            return gradient.clone(), None, None, None
        return exchanged(gradient.contiguous(), receive, send, group), None, None, None

# %% wrong · 2 times too large
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive, group):
        ctx.lists = send, receive, group
        return exchanged(x, send, receive, group)

    @staticmethod
    def backward(ctx, gradient):
        send, receive, group = ctx.lists
        return exchanged(gradient.contiguous(), receive, send, group) * 2, None, None, None

# %% wrong · two exchanges, and then the backward of the first one
class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive, group):
        Exchange.kept = send, receive, group
        return exchanged(x, send, receive, group)

    @staticmethod
    def backward(ctx, gradient):
        send, receive, group = Exchange.kept
        return exchanged(gradient.contiguous(), receive, send, group), None, None, None
