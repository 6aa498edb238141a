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

# %% right · from a list of products, in float32
import numpy as np

def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    blocks = np.float32(layers) * np.sum(np.float32([12 * width**2, 2 * width * context]))
    passes = np.array([[3, 3], [4, 3]]) @ np.array([blocks, width * vocabulary])
    model, hardware = 2 * batch * context * passes / seconds / gpus
    return {"hardware": hardware, "mfu": model / peak, "model": model}

# %% wrong · neither rounded nor cut
# -     return {"model": model / each, "hardware": hardware / each, "mfu": model / each / peak}
# +     mfu = model / each / peak
# +     return {"model": model // each, "hardware": hardware // each, "mfu": mfu}

# %% wrong · not the other way round
# -     return {"model": model / each, "hardware": hardware / each, "mfu": model / each / peak}
# +     mfu = peak / (model / each)
# +     return {"model": model / each, "hardware": hardware / each, "mfu": mfu}

# %% wrong · it keeps its first result
KEPT = {}

def utilization(layers, width, vocabulary, context, batch, seconds, gpus, peak):
    if not KEPT:
        blocks = layers * (12 * width**2 + 2 * width * context)
        each = batch * context / (seconds * gpus)
        model = 6 * each * (blocks + width * vocabulary)
        KEPT.update(model=model, hardware=model + 2 * each * blocks, mfu=model / peak)
    return KEPT
