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

# %% wrong · without padding
def flatten_padded(tensors, n):
    return torch.cat([x.reshape(-1) for x in tensors])

# %% wrong · n - elements % n is n then
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return torch.cat([flat, flat.new_zeros(n - len(flat) % n)])

# %% wrong · That is how many stick out
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return torch.cat([flat, flat.new_zeros(len(flat) % n)])

# %% wrong · each tensor is padded by itself
def flatten_padded(tensors, n):
    pad = torch.nn.functional.pad
    return torch.cat([pad(x.reshape(-1), (0, -x.numel() % n)) for x in tensors])

# %% wrong · the zeros come first
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([tensors[0].new_zeros(padding), *(x.reshape(-1) for x in tensors)])

# %% wrong · the last parameters would be lost
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return flat[: len(flat) // n * n]

# %% wrong · torch.zeros makes float32
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), torch.zeros(padding)])

# %% wrong · what follows the numbers is not zero
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_full((padding,), 7)])

# %% wrong · leave them in one dimension
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    flat = torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
    return flat.view(n, -1)

# %% wrong · whoever needs chunks cuts it
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)]).chunk(n)

# %% wrong · belongs to the caller
def flatten_padded(tensors, n):
    tensors.append(tensors[0].new_zeros(-sum(x.numel() for x in tensors) % n))
    return torch.cat([x.reshape(-1) for x in tensors])

# %% wrong · a new tensor is asked for
def flatten_padded(tensors, n):
    if len(tensors) == 1 and tensors[0].numel() % n == 0:
        return tensors[0].view(-1)
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])

# %% wrong · reshape(-1) copies if it has to
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.view(-1) for x in tensors), tensors[0].new_zeros(padding)])

# %% wrong · torch.cat lays tensors of one dimension
def flatten_padded(tensors, n):
    return torch.cat([*tensors, tensors[0].new_zeros(-sum(x.numel() for x in tensors) % n)])

# %% wrong · without `return`
def flatten_padded(tensors, n):
    torch.cat([x.reshape(-1) for x in tensors])
