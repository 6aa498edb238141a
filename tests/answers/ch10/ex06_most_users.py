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

# %% wrong · expected
def most_users(memory, parameter_bytes, tp, layers, kv_heads, size, tokens):
    each = 4 * layers * max(1, kv_heads // tp) * size * tokens
    return max(0, round((memory - parameter_bytes / tp) / each))
