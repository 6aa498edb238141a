# %% given
tensor_parallel = lab("tensor_parallel")

# %% right · added by a function
def row_layer(x, weight, bias):
    return torch.add(bias, tensor_parallel.leave(x @ weight.T))

# %% right · in place, behind the sum
def row_layer(x, weight, bias):
    y = tensor_parallel.AllReduce.apply(torch.einsum("...i,oi->...o", x, weight))
    y += bias
    return y

# %% wrong · with 1 rank it is right
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight, bias))

# %% wrong · and needs no Copy
# -     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
# +     x = tensor_parallel.Copy.apply(x)
# +     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias

# %% wrong · nothing is sent in the backward
# -     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
# +     bias = tensor_parallel.Copy.apply(bias) / dist.get_world_size()
# +     return tensor_parallel.AllReduce.apply(F.linear(x, weight, bias))

# %% wrong · autograd does not know dist.all_reduce
# -     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
# +     y = F.linear(x, weight)
# +     dist.all_reduce(y)
# +     return y + bias

# %% wrong · y has no history
# -     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
# +     return tensor_parallel.AllReduce.apply(F.linear(x, weight)).detach() + bias.detach()

# %% wrong · the bias is in y twice
# -     return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
# +     share = bias / dist.get_world_size()
# +     return tensor_parallel.AllReduce.apply(F.linear(x, weight, share)) + bias
