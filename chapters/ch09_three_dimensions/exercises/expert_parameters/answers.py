# %% right · one after the other
def expert_parameters(rest, layers, width, hidden, n, k):
    expert = 3 * width * hidden
    whole = rest + layers * (n * expert + width * n)
    return whole, whole - layers * (n - k) * expert

# %% right · with made layers
def expert_parameters(rest, layers, width, hidden, n, k):
    def count_parameters(experts):
        return rest + layers * (3 * width * hidden * experts + n * width)
    return [count_parameters(n), count_parameters(k)]

# %% wrong · a token meets k experts, not all n
def expert_parameters(rest, layers, width, hidden, n, k):
    whole = rest + layers * (n * 3 * width * hidden + width * n)
    return whole, whole

# %% wrong · each layer has a router
def expert_parameters(rest, layers, width, hidden, n, k):
    return [rest + layers * of * 3 * width * hidden for of in (n, k)]

# %% wrong · Attention and embeddings are there once
def expert_parameters(rest, layers, width, hidden, n, k):
    one = rest + layers * 3 * width * hidden
    return n * one + layers * width * n, k * one + layers * width * n

# %% wrong · the rest of the model is used by every token
def expert_parameters(rest, layers, width, hidden, n, k):
    expert, router = 3 * width * hidden, width * n
    return rest + layers * (n * expert + router), layers * (k * expert + router)

# %% wrong · all of it is used
def expert_parameters(rest, layers, width, hidden, n, k):
    expert = 3 * width * hidden
    return rest + layers * (n * expert + width * n), rest + layers * (k * expert + width * k)

# %% wrong · expected two numbers
def expert_parameters(rest, layers, width, hidden, n, k):
    return rest + layers * (n * 3 * width * hidden + width * n)
