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

# %% wrong · the ranks' norms drift apart
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(x)

# %% wrong · the gradients of different features are mixed
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(x)
# -     hidden = F.gelu(F.linear(h, up))
# +     hidden = tensor_parallel.Copy.apply(F.gelu(F.linear(h, up)))

# %% wrong · complete on each
# -     return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias
# +     mine = tensor_parallel.Copy.apply(F.linear(hidden, down))
# +     return x + tensor_parallel.AllReduce.apply(mine) + bias

# %% wrong · what has it been detached from
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = tensor_parallel.Copy.apply(F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias.data))

# %% wrong · what does a call leave behind
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = norm(tensor_parallel.Copy.apply(x))
# +     for p in norm.parameters():
# +         p.register_hook(tensor_parallel.summed)

# %% wrong · the gradient of the residual alone
# -     h = tensor_parallel.Copy.apply(norm(x))
# +     h = tensor_parallel.Copy.apply(norm(x.detach()))
