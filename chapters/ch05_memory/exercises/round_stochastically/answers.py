# %% right · neighbours by arithmetic, and a chance for the way between them
def round_stochastically(x):
    exponent = torch.floor(torch.log2(x.double().abs().clamp(min=1e-300)))
    step = 2.0 ** (exponent - 7)
    lower = torch.floor(x.double() / step) * step
    share = (x.double() - lower) / step
    up = torch.rand(x.shape, dtype=torch.float64) < share
    return torch.where(x == 0, 0.0, lower + step * up).bfloat16()

# %% right · the two halves of the bits, compared with chance
def round_stochastically(x):
    bits = x.clone(memory_format=torch.contiguous_format).view(torch.int32)
    low = bits & 0xFFFF
    carry = (torch.rand(x.shape) * 65536 < low).int() << 16
    return ((bits - low) + carry).view(torch.float32).to(torch.bfloat16)

# %% right · truncated by the upper int16
def round_stochastically(x):
    noise = torch.randint_like(x, 1 << 16).int()
    total = x.contiguous().view(torch.int32) + noise
    return (total >> 16).to(torch.int16).view(torch.bfloat16)

# %% wrong · rounding to the nearest: in the first half
def round_stochastically(x):
    return x.bfloat16()

# %% wrong · the lower bits are cut off, and chance has no part
# -     return ((bits + chance) & -(2**16)).view(torch.float32).bfloat16()
# +     return (bits & -(2**16)).view(torch.float32).bfloat16()

# %% wrong · both neighbours come up equally often
def round_stochastically(x):
    bits = x.contiguous().view(torch.int32)
    low = bits & -(2**16)
    is_between = bits != low
    up = (torch.rand(x.shape) < 0.5) & is_between
    return (low + (up.int() << 16)).view(torch.float32).bfloat16()

# %% wrong · the probabilities are exchanged
def round_stochastically(x):
    bits = x.contiguous().view(torch.int32)
    rest = bits & 0xFFFF
    up = (torch.rand(x.shape) * 65536 >= rest) & (rest > 0)
    return ((bits - rest) + (up.int() << 16)).view(torch.float32).bfloat16()

# %% wrong · chance adds at most half of the way
# -     chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)
# +     chance = torch.randint(0, 2**15, x.shape, dtype=torch.int32, device=x.device)

# %% wrong · rounding to the nearest adds half a step once more
def round_stochastically(x):
    bits = x.contiguous().view(torch.int32)
    chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32)
    back = (bits + chance).view(torch.float32).bfloat16()
    return torch.where(x.bfloat16().float() == x, x.bfloat16(), back)

# %% wrong · needs no rounding, and has to stay
# -     return ((bits + chance) & -(2**16)).view(torch.float32).bfloat16()
# +     return (bits + chance).view(torch.float32).bfloat16()

# %% wrong · one chance is drawn for all
# -     chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)
# +     chance = torch.randint(0, 2**16, (), dtype=torch.int32, device=x.device)

# %% wrong · no seed is set in here
# -     chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)
# +     torch.manual_seed(0)
# +     chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)

# %% wrong · what is added in place changes x
def round_stochastically(x):
    bits = x.view(torch.int32)
    bits += torch.randint(0, 2**16, x.shape, dtype=torch.int32)
    bits &= -(2**16)
    return x.bfloat16()

# %% wrong · expected bfloat16
# -     return ((bits + chance) & -(2**16)).view(torch.float32).bfloat16()
# +     return ((bits + chance) & -(2**16)).view(torch.float32)

# %% wrong · the result has the shape of x
def round_stochastically(x):
    bits = x.flatten().view(torch.int32)
    chance = torch.randint(0, 2**16, bits.shape, dtype=torch.int32)
    return ((bits + chance) & -(2**16)).view(torch.float32).bfloat16()

# %% wrong · the amount of chance has to fit the number
def round_stochastically(x):
    noise = (torch.rand(x.shape) - 0.5) * 2.0**-7
    return torch.where(x.bfloat16().float() == x, x, x + noise).bfloat16()

# %% wrong · a function without `return` gives None
def round_stochastically(x):
    bits = x.contiguous().view(torch.int32)
    chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32)
    (bits + chance).view(torch.float32).bfloat16()

# %% wrong · Each number needs a chance of its own
# -     chance = torch.randint(0, 2**16, x.shape, dtype=torch.int32, device=x.device)
# +     chance = torch.randint(0, 2**16, x.shape[-1:], dtype=torch.int32, device=x.device)

# %% right · in float64, without bits
def round_stochastically(x):
    m, e = torch.frexp(x.double())
    return torch.ldexp(torch.floor(m * 256 + torch.rand_like(m)), e - 8).bfloat16()

# %% right · two random bytes, and the upper half alone
def round_stochastically(x):
    b = x.contiguous().view(torch.int32).long()
    r = torch.randint(0, 256, x.shape) * 256 + torch.randint(0, 256, x.shape)
    return ((b + r) >> 16).to(torch.int16).view(torch.bfloat16)

# %% wrong · every amount of chance has to come up equally often
def round_stochastically(x):
    b = x.contiguous().view(torch.int32)
    return ((b + 8192 * torch.randint(0, 8, x.shape, dtype=torch.int32)) & -65536).view(torch.float32).bfloat16()

# %% wrong · are rounded away from 0 the probability is to be
def round_stochastically(x):
    b = x.contiguous().view(torch.int32)
    r = (torch.randn(x.shape) * 16384 + 32768).clamp(0, 65535).int()
    return ((b + r) & -65536).view(torch.float32).bfloat16()

# %% wrong · Each call has to draw anew
N = {}
def round_stochastically(x):
    b = x.contiguous().view(torch.int32)
    r = N.setdefault(x.shape, torch.randint(0, 2**16, x.shape, dtype=torch.int32))
    return ((b + r) & -65536).view(torch.float32).bfloat16()
