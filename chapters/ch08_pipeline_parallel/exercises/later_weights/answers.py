# %% right · the weight is saved, too
class LaterWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, later):
        ctx.save_for_backward(x, weight)
        ctx.weight, ctx.bias, ctx.later = weight, bias, later
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        (x, saved), weight, bias = ctx.saved_tensors, ctx.weight, ctx.bias

        @torch.no_grad()
        def add():
            for parameter, inputs in (weight, x), (bias, None):
                if parameter is None or not parameter.requires_grad:
                    continue
                g = gradient.reshape(-1, gradient.shape[-1])
                more = g.sum(0) if inputs is None else g.T @ x.reshape(-1, x.shape[-1])
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad += more

        ctx.later.append(add)
        return gradient.matmul(saved), None, None, None

# %% right · einsum, and a function for each
# -         ctx.save_for_backward(x)
# +         ctx.x = x.detach()
# -         (x,) = ctx.saved_tensors
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         if ctx.weight.requires_grad:
# +             ctx.later.append(lambda: add_gradient(
# +                 ctx.weight, torch.einsum("...o,...i->oi", gradient, ctx.x)))
# +         if ctx.bias is not None:
# +             ctx.later.append(lambda: add_gradient(ctx.bias, gradient.flatten(0, -2).sum(0)))

# %% wrong · its result only added later
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         ctx.later.append(partial(
# +             add_gradient, ctx.weight, gradient.flatten(0, -2).T @ x.flatten(0, -2)))
# +         if ctx.bias is not None:
# +             ctx.later.append(partial(add_gradient, ctx.bias, gradient.flatten(0, -2).sum(0)))

# %% wrong · autograd frees what it has saved
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         ctx.later.append(lambda: add_weight_gradients(
# +             *ctx.saved_tensors, gradient, ctx.weight, ctx.bias))

# %% wrong · theirs are what a function in `later` is for
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         add_weight_gradients(x, gradient, ctx.weight, ctx.bias)

# %% wrong · nobody can compute the gradients
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))

# %% wrong · one gradient for each argument
# -         return gradient @ ctx.weight, None, None, None
# +         return gradient @ ctx.weight

# %% wrong · without a transposition
# -         return gradient @ ctx.weight, None, None, None
# +         return gradient @ ctx.weight.T, None, None, None

# %% wrong · the rank before waits
# -         return gradient @ ctx.weight, None, None, None
# +         return None, None, None, None

# %% wrong · gives them nothing
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         ctx.later.append(lambda weight: add_weight_gradients(x, gradient, weight, ctx.bias))

# %% wrong · what was there before is lost
# -         return gradient @ ctx.weight, None, None, None
# +         return gradient @ ctx.weight, None, None, None
# +
# +
# + def add_gradient(parameter, gradient):
# +     if parameter.requires_grad:
# +         parameter.grad = gradient

# %% wrong · x may have more dims than two
# -         return gradient @ ctx.weight, None, None, None
# +         return gradient @ ctx.weight, None, None, None
# +
# +
# + @torch.no_grad()
# + def add_weight_gradients(x, gradient, weight, bias):
# +     add_gradient(weight, gradient.T @ x)
# +     if bias is not None:
# +         add_gradient(bias, gradient.sum(0))

# %% wrong · saved_tensors may give another tensor than the parameter
class LaterWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, later):
        ctx.save_for_backward(x, weight, bias)
        ctx.later = later
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        ctx.later.append(partial(add_weight_gradients, x, gradient, weight, bias))
        return gradient @ weight, None, None, None

# %% wrong · the functions of other micro-batches are there already
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         ctx.later[:] = [
# +             partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)]

# %% wrong · a function is to be put there, not its result
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         ctx.later.append(add_weight_gradients(x, gradient, ctx.weight, ctx.bias))

# %% wrong · there may be no bias
# -         return gradient @ ctx.weight, None, None, None
# +         return gradient @ ctx.weight, None, None, None
# +
# +
# + @torch.no_grad()
# + def add_weight_gradients(x, gradient, weight, bias):
# +     gradient = gradient.flatten(0, -2)
# +     add_gradient(weight, gradient.T @ x.flatten(0, -2))
# +     if True:
# +         add_gradient(bias, gradient.sum(0))

# %% wrong · each gradient is added twice
# -         ctx.later.append(partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias))
# +         add = partial(add_weight_gradients, x, gradient, ctx.weight, ctx.bias)
# +         ctx.later += [add, add]

# %% wrong · the gradient that comes in has changed
# -         return gradient @ ctx.weight, None, None, None
# +         of_x = gradient @ ctx.weight
# +         gradient.zero_()
# +         return of_x, None, None, None
