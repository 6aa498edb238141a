# %% right · halves
def rotate(x, places, base=10_000.0):
    half = x.shape[-1] // 2
    speeds = torch.tensor([base ** (-2 * i / x.shape[-1]) for i in range(half)], dtype=torch.float64)
    angles = torch.outer(places.double(), speeds)
    cos, sin = (of.to(torch.promote_types(x.dtype, torch.float32)) for of in
                (angles.cos(), angles.sin()))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x)

# %% right · complex numbers
def rotate(x, places, base=10_000.0):
    a, b = x.double().chunk(2, -1)
    half = a.shape[-1]
    angles = places[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], -1).to(x.dtype)

# %% wrong · this counts from 0 on
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     places = torch.arange(x.shape[-2])
# +     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)

# %% wrong · as if it had no gaps
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     places = torch.arange(places[0], places[0] + x.shape[-2])
# +     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)

# %% wrong · these pairs are neighbours
def rotate(x, places, base=10_000.0):
    half = x.shape[-1] // 2
    angles = places.double()[:, None] * base ** (-torch.arange(half).double() / half)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).to(x)

# %% wrong · the other way round
# -     return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)
# +     return (x * cos + torch.cat([second, -first], -1) * sin).to(x.dtype)

# %% wrong · both new numbers have a plus
# -     return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)
# +     return (x * cos + torch.cat([second, first], -1) * sin).to(x.dtype)

# %% wrong · half as large as it should be
# -     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
# +     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / x.shape[-1])

# %% wrong · has no minus
# -     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
# +     speeds = base ** (torch.arange(half, dtype=torch.float64, device=x.device) / half)

# %% wrong · In float32
# -     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
# +     speeds = base ** (-torch.arange(half, device=x.device) / half)

# %% wrong · 10,000 is only its default
# -     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
# +     speeds = 10_000.0 ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)

# %% wrong · are rounded to the dtype of x
# -     return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)
# +     return x * cos + torch.cat([-second, first], -1) * sin

# %% wrong · round the result alone
# -     wide = torch.promote_types(x.dtype, torch.float32)
# +     wide = x.dtype

# %% wrong · bfloat16 has no 999
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     angles = (places.to(x).unsqueeze(-1) * speeds.to(x)).repeat(1, 2)

# %% wrong · bfloat16 has no 999
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     angles = (places.to(x).unsqueeze(-1) * speeds).repeat(1, 2)

# %% wrong · return a new tensor
# -     first, second = x.to(wide).chunk(2, -1)
# +     if not places.any():
# +         return x
# +     first, second = x.to(wide).chunk(2, -1)

# %% wrong · x may be transposed
# -     first, second = x.to(wide).chunk(2, -1)
# +     x.view(-1, *x.shape[-2:])
# +     first, second = x.to(wide).chunk(2, -1)

# %% wrong · any number of leading dimensions
# -     first, second = x.to(wide).chunk(2, -1)
# +     samples, heads, length, size = x.shape
# +     first, second = x.to(wide).chunk(2, -1)

# %% wrong · base is not used
def rotate(x, places, base=10_000.0, tables={}):
    half, key = x.shape[-1] // 2, (x.shape[-1], *places.tolist())
    if key not in tables:
        speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
        tables[key] = torch.outer(places.double(), speeds)
    cos, sin = tables[key].cos().to(x), tables[key].sin().to(x)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

# %% wrong · In float32
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2).float()

# %% wrong · in one layout and written in the other
# -     first, second = x.to(wide).chunk(2, -1)
# +     x = torch.cat([x[..., ::2], x[..., 1::2]], -1)
# +     first, second = x.to(wide).chunk(2, -1)

# %% wrong · should stay as it is
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     angles = ((places.to(speeds) + 1).unsqueeze(-1) * speeds).repeat(1, 2)

# %% wrong · along the last dimension but one
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     angles = (places.to(speeds)[:, None, None] * speeds).repeat(1, 1, 2)

# %% wrong · have the same angle
# -     speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
# -     angles = (places.to(speeds).unsqueeze(-1) * speeds).repeat(1, 2)  # (places, size)
# +     speeds = base ** (-torch.arange(2 * half, dtype=torch.float64) / half)
# +     angles = places.to(speeds).unsqueeze(-1) * speeds

# %% wrong · operations that autograd follows
# -     wide = torch.promote_types(x.dtype, torch.float32)
# +     x = x.detach()
# +     wide = torch.promote_types(x.dtype, torch.float32)

# %% wrong · from the new first half
def rotate(x, places, base=10_000.0):
    half, y = x.shape[-1] // 2, x.clone()
    angles = places.double()[:, None] * base ** (-torch.arange(half).double() / half)
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    y[..., :half] = y[..., :half] * cos - y[..., half:] * sin
    y[..., half:] = y[..., half:] * cos + y[..., :half] * sin
    return y
