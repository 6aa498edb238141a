# %% right · forward, three times
def needed_flops(tokens, layers, matrices, width, context, output):
    forward = 0
    for _ in range(layers):
        forward += 2 * matrices + 4 * context * width
    forward += 2 * output
    return 3 * forward * tokens

# %% right · by kind
def needed_flops(tokens, layers, matrices, width, context, output):
    numbers = layers * matrices + output
    scores = layers * context * width * 2
    return 6 * tokens * sum([numbers, scores])

# %% wrong · this is the forward alone
def needed_flops(tokens, layers, matrices, width, context, output):
    return tokens * (2 * layers * matrices + 4 * layers * context * width + 2 * output)

# %% wrong · the scores are missing
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * (layers * matrices + output)

# %% wrong · expected
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * (layers * matrices + output) + 12 * layers * context * context * width
