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

# %% wrong · the bias learns more slowly
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight, bias / dist.get_world_size()))

# %% wrong · only one rank's copy
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(
        F.linear(x, weight, bias if dist.get_rank() == 0 else None)
    )

# %% wrong · one rank's copy learns
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight, bias * (dist.get_rank() == 0)))

# %% wrong · a share of the bias
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias / dist.get_world_size()

# %% wrong · no bias in y
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight))

# %% wrong · on no rank will it learn
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias.detach()

# %% wrong · that is not once
def row_layer(x, weight, bias):
    return (
        tensor_parallel.AllReduce.apply(F.linear(x, weight, bias))
        - (dist.get_world_size() - 1) * bias
    )

# %% wrong · nobody has added that up
def row_layer(x, weight, bias):
    return (F.linear(x, weight)) + bias

# %% wrong · added, not averaged
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) / dist.get_world_size() + bias

# %% wrong · Added up again it is n times too large
def row_layer(x, weight, bias):
    import torch.distributed.nn
    return torch.distributed.nn.functional.all_reduce(F.linear(x, weight)) + bias

# %% wrong · nothing is sent in the backward
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(
        F.linear(x, weight, tensor_parallel.Copy.apply(bias) / dist.get_world_size())
    )

# %% wrong · autograd does not know dist.all_reduce
def row_layer(x, weight, bias):
    y = F.linear(x, weight)
    dist.all_reduce(y)
    return y + bias

# %% wrong · y has no history
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)).detach() + bias.detach()
