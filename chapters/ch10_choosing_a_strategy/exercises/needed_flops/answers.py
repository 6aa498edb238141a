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

# %% wrong · the scores of one sample
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * (layers * matrices + output) + 12 * layers * context * context * width

# %% right · whole samples, one after another
def needed_flops(tokens, layers, matrices, width, context, output):
    of_sample = 6 * context * (layers * matrices + output)
    for _ in range(layers):
        of_sample += 3 * 2 * 2 * context ** 2 * width
    return tokens // context * of_sample

# %% wrong · not those of all tokens in the step
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * (layers * matrices + output) + 12 * layers * tokens ** 2 * width

# %% wrong · costs `width` multiplications and additions
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * (layers * matrices + output) + 12 * layers * tokens * context

# %% wrong · this is twice the forward
def needed_flops(tokens, layers, matrices, width, context, output):
    forward = 2 * tokens * (layers * (matrices + 2 * context * width) + output)
    backward = forward
    return forward + backward

# %% wrong · the output matrix works on each token
def needed_flops(tokens, layers, matrices, width, context, output):
    return 6 * tokens * layers * (matrices + 2 * context * width) + 6 * output
