# %% given
tensor_parallel = lab("tensor_parallel")

# %% right · three copies before the norm
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     x_in, w, b = map(tensor_parallel.Copy.apply, (x, norm.weight, norm.bias))
# +     h = F.layer_norm(x_in, w.shape, w, b, norm.eps)

# %% right · a hook
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(x)
# +     h.register_hook(tensor_parallel.summed)

# %% right · another order
def residual_mlp(x, norm, up, down, bias):
    y = F.gelu(tensor_parallel.enter(norm(x)) @ up.T) @ down.T
    return tensor_parallel.leave(y).add(x).add(bias)

# %% wrong · the ranks' norms drift apart
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(x)

# %% wrong · Where does what is the same on all ranks end
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(tensor_parallel.Copy.apply(x))

# %% wrong · And the norm's parameters still have
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     x = tensor_parallel.Copy.apply(x)
# +     h = norm(x)

# %% wrong · but what goes on through the norm
def residual_mlp(x, norm, up, down, bias):
    h = F.layer_norm(
        x,
        x.shape[-1:],
        tensor_parallel.Copy.apply(norm.weight),
        tensor_parallel.Copy.apply(norm.bias),
    )
    hidden = F.gelu(F.linear(h, up))
    return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias

# %% wrong · and counts n times
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     x = tensor_parallel.Copy.apply(x)
# +     w, b = tensor_parallel.Copy.apply(norm.weight), tensor_parallel.Copy.apply(norm.bias)
# +     h = F.layer_norm(x, x.shape[-1:], w, b)

# %% wrong · the gradients of different features are mixed
def residual_mlp(x, norm, up, down, bias):
    h = norm(x)
    hidden = F.gelu(F.linear(h, up))
    return (
        x
        + tensor_parallel.AllReduce.apply(F.linear(tensor_parallel.Copy.apply(hidden), down))
        + bias
    )

# %% wrong · complete on each
def residual_mlp(x, norm, up, down, bias):
    h = tensor_parallel.Copy.apply(norm(x))
    hidden = F.gelu(F.linear(h, up))
    return (
        x
        + tensor_parallel.AllReduce.apply(tensor_parallel.Copy.apply(F.linear(hidden, down)))
        + bias
    )

# %% wrong · has been added up over the ranks in the forward
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = tensor_parallel.AllReduce.apply(norm(x))

# %% wrong · a Copy before it sums once more
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = tensor_parallel.Copy.apply(norm(tensor_parallel.Copy.apply(x)))

# %% wrong · over the ranks twice
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     x = tensor_parallel.Copy.apply(x)
# +     h = tensor_parallel.Copy.apply(norm(x))

# %% wrong · nobody has added up the ranks'
# -     return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias
# +     return x + (F.linear(hidden, down)) + bias

# %% wrong · parts of a sum
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(x)
# +     mean = lambda g: tensor_parallel.summed(g) / dist.get_world_size()
# +     h.register_hook(mean)

# %% wrong · what does a call leave behind
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(tensor_parallel.Copy.apply(x))
# +     for p in norm.parameters():
# +         p.register_hook(tensor_parallel.summed)

# %% wrong · no residual
# -     return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias
# +     return tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias
