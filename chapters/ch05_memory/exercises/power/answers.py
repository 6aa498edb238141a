# %% right · by logarithms of nothing, step by step
class Power(Power):
    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0]
        derivative = ctx.exponent * x.pow(ctx.exponent - 1)
        return (None, grad_output.mul(derivative))

# %% right · from the forward's result
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, exponent, x):
        ctx.p = exponent
        ctx.save_for_backward(x)
        return torch.pow(x, exponent)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g * ctx.p * x**ctx.p / x

# %% right · the derivative by autograd
class Power(Power):
    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = x**ctx.exponent
        (gradient,) = torch.autograd.grad(y, x, grad_output)
        return None, gradient

# %% wrong · it is multiplied by grad_output
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, ctx.exponent * x ** (ctx.exponent - 1)

# %% wrong · the exponent is not lowered
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, grad_output * ctx.exponent * x**ctx.exponent

# %% wrong · the factor is missing
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, grad_output * x ** (ctx.exponent - 1)

# %% wrong · returns two gradients, in this order
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return grad_output * ctx.exponent * x ** (ctx.exponent - 1)

# %% wrong · None for the exponent, which is no tensor
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return grad_output * ctx.exponent * x ** (ctx.exponent - 1), None

# %% wrong · passes unchanged
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, grad_output

# %% wrong · it is a factor
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, grad_output + ctx.exponent * x ** (ctx.exponent - 1)

# %% wrong · the gradient of a square
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, grad_output * 2 * x

# %% wrong · the gradient of x has the shape of x
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, (grad_output * ctx.exponent * x ** (ctx.exponent - 1)).sum(0)[None, None]

# %% wrong · What the backward computes from it need not be kept
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, exponent, x):
        ctx.save_for_backward(exponent * x ** (exponent - 1))
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output):
        return None, grad_output * ctx.saved_tensors[0]

# %% wrong · the second one belongs to x
# -         return None, grad_output * (ctx.exponent * x ** (ctx.exponent - 1))
# +         return None, None

# %% right · setup_context
class Power(torch.autograd.Function):
    @staticmethod
    def forward(exponent, x):
        return x.pow(exponent)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.exponent, x = inputs
        ctx.save_for_backward(x)
    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        return None, ctx.exponent * grad_output * torch.pow(x, ctx.exponent) / x

# %% right · torch.func.vjp
class Power(Power):
    @staticmethod
    def backward(ctx, grad_output):
        return None, torch.func.vjp(lambda x: x**ctx.exponent, ctx.saved_tensors[0])[1](grad_output)[0]

# %% wrong · x belongs to the caller
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, x.pow_(ctx.exponent - 1).mul_(ctx.exponent).mul_(g)

# %% wrong · and so does its memory
class Power(Power):
    @staticmethod
    def forward(ctx, exponent, x):
        ctx.exponent = exponent
        ctx.save_for_backward(x.clone())
        return x.pow_(exponent)

# %% wrong · leave that as it is
class Power:
    @staticmethod
    def apply(exponent, x): return x**exponent

# %% wrong · it has a sign
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g.abs() * ctx.exponent * x ** (ctx.exponent - 1)

# %% wrong · before it is lowered
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g * (ctx.exponent - 1) * x ** (ctx.exponent - 1)

# %% wrong · ** comes before *
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g * (ctx.exponent * x) ** (ctx.exponent - 1)

# %% wrong · Two calls have a `ctx` each
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, exponent, x):
        Power.exponent, Power.x = exponent, x
        return x**exponent
    @staticmethod
    def backward(ctx, g):
        return None, g * Power.exponent * Power.x ** (Power.exponent - 1)

# %% wrong · grad_output belongs to autograd
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None, g.mul_(ctx.exponent * x ** (ctx.exponent - 1))

# %% wrong · it does not call backward() itself
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        y = (x ** ctx.exponent).sum(); y.backward()
        return None, x.grad * g

# %% wrong · what the forward has saved comes back in a tuple
class Power(Power):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors
        return None, g * ctx.exponent * x ** (ctx.exponent - 1)
