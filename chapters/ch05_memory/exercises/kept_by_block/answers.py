# %% right · tensor by tensor, and a float
def kept_by_block(samples, context, width, heads, size=4):
    narrow = samples * context * width * size
    norms = 2 * (narrow + 2 * samples * context * size)
    linear = 3 * narrow + 4 * narrow
    attention = 3 * narrow + samples * heads * context * size
    return float(norms + linear + attention + 4 * narrow)

# %% right · with numel
def kept_by_block(samples, context, width, heads, size=4):
    one = torch.empty(samples, context, width, device="meta").numel()
    return torch.tensor((16 * one + samples * context * (heads + 4)) * size)

# %% wrong · for each token 1,546 numbers, got 1,162 4 * width for each token are missing
# -     return tokens * (16 * width + 4 + heads) * size
# +     return tokens * (12 * width + 4 + heads) * size

# %% wrong · log-sum-exp is missing: a number for each token and head; and the norms'
# -     return tokens * (16 * width + 4 + heads) * size
# +     return tokens * 16 * width * size

# %% wrong · the number of numbers: each takes `size` bytes; and 4 * width
# -     return tokens * (16 * width + 4 + heads) * size
# +     return tokens * (12 * width + 4 + heads)

# %% wrong · the norms' statistics are taken to have 4 bytes each
# -     return tokens * (16 * width + 4 + heads) * size
# +     return tokens * ((16 * width + heads) * size + 4 * 4)

# %% wrong · without `return`
# -     return tokens * (16 * width + 4 + heads) * size
