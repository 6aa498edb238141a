# %% right · einsum, and only what is needed
# -         of_x = gradient @ weight
# -         wait = ctx.begin(of_x, ctx.group)
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# -         wait()
# +         of_x = of_weight = of_bias = wait = None
# +         if ctx.needs_input_grad[0]:
# +             of_x = torch.einsum("...o,oi->...i", gradient, weight)
# +             wait = ctx.begin(of_x, group=ctx.group)
# +         if ctx.needs_input_grad[2]:
# +             of_bias = gradient.reshape(-1, gradient.shape[-1]).sum(0)
# +         if ctx.needs_input_grad[1]:
# +             of_weight = torch.einsum("...o,...i->oi", gradient, x)
# +         if wait is not None:
# +             wait()

# %% right · a sum of products
# -         of_x = gradient @ weight
# -         wait = ctx.begin(of_x, ctx.group)
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# -         wait()
# -         return of_x, of_weight, of_bias, None, None
# +         of_x = (gradient.unsqueeze(-1) * weight).sum(-2)
# +         finish = ctx.begin(of_x, ctx.group)
# +         dims = list(range(x.dim() - 1))
# +         of_weight = (gradient.unsqueeze(-1) * x.unsqueeze(-2)).sum(dims)
# +         finish()
# +         return of_x, of_weight, gradient.sum(dims) if ctx.has_bias else None, None, None

# %% right · a product for each sample, which autograd adds up
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# +         of_weight = gradient.mT @ x
# -         return of_x, of_weight, of_bias, None, None
# +         return of_x, of_weight, gradient.sum(0) if ctx.has_bias else None, None, None

# %% wrong · Until that has been called
# -         wait = ctx.begin(of_x, ctx.group)
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# -         wait()
# -         return of_x, of_weight, of_bias, None, None
# +         ctx.begin(of_x, ctx.group)
# +         return of_x, *gradients_of_layer(gradient, x, ctx.has_bias), None, None

# %% wrong · is waited for at once
# -         wait = ctx.begin(of_x, ctx.group)
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# -         wait()
# -         return of_x, of_weight, of_bias, None, None
# +         ctx.begin(of_x, ctx.group)()
# +         return of_x, *gradients_of_layer(gradient, x, ctx.has_bias), None, None

# %% wrong · can begin as soon as the gradient of x is there
# -         of_x = gradient @ weight
# -         wait = ctx.begin(of_x, ctx.group)
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# -         wait()
# +         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# +         of_x = gradient @ weight
# +         ctx.begin(of_x, ctx.group)()

# %% wrong · but not by ctx.begin
# -         wait = ctx.begin(of_x, ctx.group)
# +         wait = begin_sum(of_x, ctx.group)

# %% wrong · and it is summed once
# -         wait()
# +         ctx.begin(of_weight, ctx.group)()
# +         wait()

# %% wrong · gradient of the output, times A
# -         of_x = gradient @ weight
# -         wait = ctx.begin(of_x, ctx.group)
# +         wait = ctx.begin(gradient, ctx.group)
# -         return of_x, of_weight, of_bias, None, None
# +         return gradient @ weight, of_weight, of_bias, None, None

# %% wrong · all of them are rows
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# +         of_weight, of_bias = gradient.T @ x, gradient.sum(0) if ctx.has_bias else None

# %% wrong · flatten or reshape copies where it has to
# -         of_weight, of_bias = gradients_of_layer(gradient, x, ctx.has_bias)
# +         rows = gradient.view(-1, gradient.shape[-1])
# +         of_weight, of_bias = gradients_of_layer(rows, x, ctx.has_bias)

# %% wrong · return the tensor that it got, not another one
# -         wait = ctx.begin(of_x, ctx.group)
# +         wait = ctx.begin(of_x.clone(), ctx.group)
