# %% right · pad at the end
def flatten_padded(tensors, n):
    flat = torch.cat([x.flatten() for x in tensors])
    return torch.nn.functional.pad(flat, (0, -len(flat) % n))

# %% right · fill
def flatten_padded(tensors, n):
    total = sum(x.numel() for x in tensors)
    flat = tensors[0].new_zeros((total + n - 1) // n * n)
    start = 0
    for x in tensors:
        flat[start : start + x.numel()] = x.ravel()
        start += x.numel()
    return flat

# %% right · one at a time
def flatten_padded(tensors, n):
    flat = torch.nn.utils.parameters_to_vector(x.contiguous() for x in tensors)
    while len(flat) % n:
        flat = torch.cat([flat, torch.zeros(1, dtype=flat.dtype, device=flat.device)])
    return flat

# %% wrong · n - elements % n is n then
# -     padding = -sum(x.numel() for x in tensors) % n
# +     padding = n - sum(x.numel() for x in tensors) % n

# %% wrong · torch.zeros makes float32
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     return torch.cat([*(x.reshape(-1) for x in tensors), torch.zeros(padding)])

# %% wrong · what follows the numbers is not zero
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_full((padding,), 7)])

# %% wrong · whoever needs chunks cuts it
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)]).chunk(n)

# %% wrong · it belongs to the caller
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     tensors.append(tensors[0].new_zeros(padding))
# +     return torch.cat([x.reshape(-1) for x in tensors])

# %% wrong · reshape(-1) copies if it has to
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     return torch.cat([*(x.view(-1) for x in tensors), tensors[0].new_zeros(padding)])

# %% wrong · torch.cat lays tensors of one dimension
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     return torch.cat([*tensors, tensors[0].new_zeros(padding)])

# %% wrong · a negative number of zeros
# -     padding = -sum(x.numel() for x in tensors) % n
# +     padding = -sum(x.numel() for x in tensors)

# %% wrong · a function without `return`
# -     return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
# +     torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
