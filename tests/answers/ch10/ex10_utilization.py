# %% right · pass by pass
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    tokens = batch * context
    forward_blocks = 2 * tokens * layers * (12 * width**2 + 2 * width * context)
    forward_ends = 2 * tokens * width * vocabulary
    needed = 3 * (forward_blocks + forward_ends)
    each = needed / seconds / gpus
    return {"model": each, "hardware": each + forward_blocks / seconds / gpus, "mfu": each / peak}

# %% right · the formula of the paper
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    h, s, n, v = width, context, layers, vocabulary
    done = 96 * batch * s * n * h * h * (1 + s / (6 * h) + v / (16 * n * h))
    model = 72 * batch * s * n * h * h * (1 + s / (6 * h) + v / (12 * n * h))
    rate = 1 / (seconds * gpus)
    return dict(mfu=model * rate / peak, model=model * rate, hardware=done * rate)

# %% wrong · leaves out the scores
# -     blocks = layers * (12 * width**2 + 2 * width * context)
# +     blocks = layers * 12 * width**2

# %% wrong · leaves out the output layer
# -     model = 6 * tokens * (blocks + width * vocabulary)
# +     model = 6 * tokens * blocks

# %% wrong · What is recomputed does not count
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    blocks = layers * (12 * width**2 + 2 * width * context)
    model = 6 * batch * context * (blocks + width * vocabulary)
    hardware = (model + 2 * batch * context * blocks) / seconds / gpus
    return {"model": model / seconds / gpus, "hardware": hardware, "mfu": hardware / peak}

# %% wrong · The output layer is not
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    blocks = layers * (12 * width**2 + 2 * width * context)
    model = 6 * batch * context * (blocks + width * vocabulary) / seconds / gpus
    return {"model": model, "hardware": model * 4 / 3, "mfu": model / peak}

# %% wrong · This counts samples
# -     tokens = batch * context
# +     tokens = batch

# %% wrong · of all GPUs together
# -     each = seconds * gpus
# +     each = seconds

# %% wrong · three numbers, under the keys
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    blocks = layers * (12 * width**2 + 2 * width * context)
    return 6 * batch * context * (blocks + width * vocabulary) / seconds / gpus

# %% wrong · expected
def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    parameters = layers * 12 * width**2 + 2 * width * vocabulary
    model = 6 * batch * context * parameters / seconds / gpus
    return {"model": model, "hardware": model * 4 / 3, "mfu": model / peak}
