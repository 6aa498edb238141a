# %% right · by hand, with grad mode and states
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        before = torch.get_rng_state()
        torch.set_rng_state(ctx.chance)
        x = ctx.saved_tensors[0].detach()
        x.requires_grad = True
        torch.set_grad_enabled(True)
        y = ctx.function(x)
        torch.set_grad_enabled(False)
        torch.set_rng_state(before)
        y.backward(gradient=grad_output)
        return None, x.grad

# %% right · the sum of y times grad_output
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.chance)
            x = x.clone().detach().requires_grad_(True)
            (ctx.function(x) * grad_output.detach()).sum().backward()
        return None, x.grad

# %% wrong · drawn other masks
# -             torch.set_rng_state(ctx.chance)

# %% wrong · the second run has moved the generator
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# +         with torch.enable_grad():

# %% wrong · puts it back, or get_rng_state before
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# +         with torch.enable_grad():
# -             y = ctx.function(x)
# +             y = ctx.function(x)
# +         torch.set_rng_state(ctx.chance)

# %% wrong · there is no graph to go back through
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# +         with torch.random.fork_rng(devices=[]):

# %% wrong · it is twice the gradient of x
# -         x = x.detach().requires_grad_()
# +         x = x.requires_grad_()

# %% wrong · still hangs on the graph of what came before it
# -         x = x.detach().requires_grad_()
# +         x = x.detach().requires_grad_() if x.is_leaf else x

# %% wrong · what came before this call gets no gradient
# -         return None, x.grad
# +         return None, None

# %% wrong · a gradient for each of them
# -         return None, x.grad
# +         return x.grad

# %% wrong · in the order of the forward's inputs
# -         return None, x.grad
# +         return x.grad, None

# %% wrong · in the shape of x
# -         return None, x.grad
# +         return None, grad_output

# %% wrong · nothing is to be multiplied
# -         return None, x.grad
# +         return None, x.grad * grad_output

# %% wrong · the backward of a sum of y begins with ones
# -         torch.autograd.backward(y, grad_output)
# +         y.sum().backward()

# %% wrong · this is the gradient of the sum
# -             y = ctx.function(x)
# -         torch.autograd.backward(y, grad_output)
# +             ctx.function(x).sum().backward()

# %% wrong · has to know the gradient of y
# -         torch.autograd.backward(y, grad_output)
# +         y.backward()

# %% wrong · so it belongs to that
# -         torch.autograd.backward(y, grad_output)
# +         torch.autograd.backward(x, grad_output)

# %% wrong · the function's weights get no gradient
# -         torch.autograd.backward(y, grad_output)
# -         return None, x.grad
# +         return None, torch.autograd.grad(y, x, grad_output)[0]

# %% wrong · returns a tuple
# -         torch.autograd.backward(y, grad_output)
# -         return None, x.grad
# +         return None, torch.autograd.grad(y, x, grad_output)

# %% wrong · the x that the function runs on has no gradient
# -         x = x.detach().requires_grad_()
# +         x = x.detach()
# -         torch.autograd.backward(y, grad_output)
# -         return None, x.grad
# +         return None, torch.autograd.grad(y, x, grad_output)[0]

# %% wrong · the graph of the first run is kept
class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, x):
        ctx.function, ctx.chance = function, torch.get_rng_state()
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = function(ctx.x)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, grad_output):
        torch.autograd.backward(ctx.y, grad_output)
        return None, ctx.x.grad

# %% wrong · the backward has not run the function again
# -         x = x.detach().requires_grad_()
# -         with torch.enable_grad(), torch.random.fork_rng(devices=[]):
# -             torch.set_rng_state(ctx.chance)
# -             y = ctx.function(x)
# -         torch.autograd.backward(y, grad_output)
# -         return None, x.grad
# +         return None, grad_output.new_ones(x.shape)

# %% wrong · one more run is enough
# -             y = ctx.function(x)
# +             y = ctx.function(x)
# +             torch.set_rng_state(ctx.chance)
# +             y = ctx.function(x)

# %% wrong · nothing else of its size may stay in ctx
# -         ctx.save_for_backward(x)
# +         ctx.save_for_backward(x)
# +         ctx.again = x.clone()

# %% wrong · only one chunk at a time
# -         torch.autograd.backward(y, grad_output)
# +         ctx.y = y
# +         torch.autograd.backward(y, grad_output, retain_graph=True)

# %% wrong · begins at y with grad_output
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.chance)
            ctx.function(x).sum().backward()
        return None, grad_output * x.grad

# %% right · a parameter of its own
class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, x):
        ctx.f, ctx.s = function, torch.get_rng_state()
        ctx.save_for_backward(x)
        with torch.no_grad(): return function(x)
    @staticmethod
    def backward(ctx, g):
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.s)
            x = nn.Parameter(ctx.saved_tensors[0].data)
            y = ctx.f(x)
            (y * g).sum().backward()
        return None, x.grad

# %% wrong · leave that as it is
class Recomputed(torch.autograd.Function):
    apply = staticmethod(lambda function, x: torch.utils.checkpoint.checkpoint(function, x, use_reentrant=True))

# %% wrong · the gradient of the mean
class Recomputed(Recomputed):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.chance)
            ctx.function(x).mean().backward()
        return None, x.grad

# %% wrong · the state of torch's generator
class Recomputed(Recomputed):
    @staticmethod
    def forward(ctx, function, x):
        import random
        ctx.function, ctx.chance = function, random.getstate(); ctx.save_for_backward(x)
        return function(x)

# %% wrong · the forward draws as often as the function does
class Recomputed(Recomputed):
    @staticmethod
    def forward(ctx, function, x):
        torch.manual_seed(0)
        ctx.function = function; ctx.save_for_backward(x)
        return function(x)
    @staticmethod
    def backward(ctx, g):
        torch.manual_seed(0)
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(): y = ctx.function(x)
        y.backward(g)
        return None, x.grad
