# %% right · matrix by matrix
def llama_parameters(layers, width, heads, kv_heads, hidden, vocabulary):
    head = width // heads
    q = o = width * heads * head
    k = v = width * kv_heads * head
    return layers * (q + k + v + o + 3 * width * hidden + 2 * width) + width * (2 * vocabulary + 1)

# %% right · as a sum
def llama_parameters(layers, width, heads, kv_heads, hidden, vocabulary):
    total = 2 * vocabulary * width + width
    for _ in range(layers):
        total += 2 * width**2 + 2 * width * (kv_heads * width / heads)
        total += 3 * width * hidden + 2 * width
    return total

# %% wrong · without `return`
def llama_parameters(layers, width, heads, kv_heads, hidden, vocabulary):
    layers * (2 * width**2 + 3 * width * hidden)
