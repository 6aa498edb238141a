# %% right · whole division
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    heads = max(1, kv_heads // tp)
    each = 2 * layers * heads * size * tokens * 2
    left = memory - parameter_bytes / tp
    return int(max(0, left) // each)

# %% right · counting up
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    heads = kv_heads // tp if tp < kv_heads else 1
    each, users = 4 * layers * heads * size * tokens, 0
    while parameter_bytes / tp + each * (users + 1) <= memory:
        users = users + 1
    return users

# %% wrong · each GPU still keeps one whole head
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * kv_heads / tp * size * tokens
    return max(0, int((memory - parameter_bytes / tp) / each))

# %% wrong · whole numbers
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(1, kv_heads // tp) * size * tokens
    return max(0.0, (memory - parameter_bytes / tp) // each)

# %% wrong · round down
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(1, kv_heads // tp) * size * tokens
    return max(0, round((memory - parameter_bytes / tp) / each))

# %% right · in whole bytes of all GPUs
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(tp, kv_heads) * size * tokens
    return max(0, memory * tp - parameter_bytes) // each

# %% wrong · kv_heads // tp is 0
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * (kv_heads // tp) * size * tokens
    return max(0, int((memory - parameter_bytes / tp) // each))

# %% wrong · a number has 2 bytes here
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 2 * layers * max(1, kv_heads // tp) * size * tokens * 4
    return max(0, int((memory - parameter_bytes / tp) // each))

# %% wrong · one user fewer than fit
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(1, kv_heads // tp) * size * tokens
    return max(0, int((memory - parameter_bytes / tp) // each) - 1)

# %% wrong · and not tp times as many
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(1, kv_heads // tp) * size * tokens
    return tp * max(0, int((memory - parameter_bytes / tp) // each))
