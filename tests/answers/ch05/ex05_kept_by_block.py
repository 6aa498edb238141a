# %% right · in one expression
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * size

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

# %% wrong · GELU's input, or its output
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (12 * width + 4 + heads) * size

# %% wrong · GELU's input, and its output
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (8 * width + 4 + heads) * size

# %% wrong · q, k and v; or a tensor within
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (13 * width + 4 + heads) * size

# %% wrong · two tensors are 4 * width wide
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (10 * width + 4 + heads) * size

# %% wrong · or the output of attention
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (15 * width + 4 + heads) * size

# %% wrong · What the block returns is kept by
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (17 * width + 4 + heads) * size

# %% wrong · a sum keeps nothing
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (18 * width + 4 + heads) * size

# %% wrong · three parts of one tensor
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (19 * width + 4 + heads) * size

# %% wrong · is the last linear layer's input, and counts once
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (20 * width + 4 + heads) * size

# %% wrong · log-sum-exp is missing
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4) * size

# %% wrong · for each head, not only
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 5) * size

# %% wrong · scores are counted, heads * context
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads * (context + 1)) * size

# %% wrong · scores are counted, and not
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads * context) * size

# %% wrong · what softmax makes of them: scaled_dot
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads * (2 * context + 1)) * size

# %% wrong · what softmax makes of them, and not
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads * 2 * context) * size

# %% wrong · statistics are missing
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + heads) * size

# %% wrong · there are two norms
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 2 + heads) * size

# %% wrong · log-sum-exp is missing: a number for each letter and head; and the norms'
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * 16 * width * size

# %% wrong · this is the number of numbers
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads)

# %% wrong · the number of numbers: each takes `size` bytes; and 4 * width
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (12 * width + 4 + heads)

# %% wrong · `size` is not used
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * 4

# %% wrong · this is for one sample
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * size / samples

# %% wrong · this is for one letter:
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * size / samples / context

# %% wrong · this is for one letter of each
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * size / context

# %% wrong · Korthikanti
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (34 * width + 5 * heads * context)

# %% wrong · the parameters are counted
def kept_by_block(samples, context, width, heads, size=4):
    return samples * context * (16 * width + 4 + heads) * size + (
        size * (12 * width * width + 13 * width)
    )

# %% wrong · without `return`
def kept_by_block(samples, context, width, heads, size=4):
    samples * context
