# %% right · from the largest down
def largest_micro_batch(room, states, activations, stages, samples):
    for size in range(samples, 0, -1):
        if samples % size:
            continue
        kept = min(stages, samples // size) * size
        if states + kept * activations <= room:
            return size
    return 0

# %% right · with a maximum
def largest_micro_batch(room, states, activations, stages, samples):
    fits = [0]
    for m in range(1, samples + 1):
        if samples % m == 0 and states + min(stages, m) * (samples // m) * activations <= room:
            fits.append(samples // m)
    return max(fits)

# %% wrong · do not divide the samples
def largest_micro_batch(room, states, activations, stages, samples):
    best = 0
    for size in range(1, samples + 1):
        if states + activations * min(stages * size, samples) <= room:
            best = size
    return best

# %% wrong · keeps as many micro-batches as there are stages
def largest_micro_batch(room, states, activations, stages, samples):
    sizes = [s for s in range(1, samples + 1) if samples % s == 0]
    return max([s for s in sizes if states + activations * s <= room], default=0)

# %% wrong · whole numbers
def largest_micro_batch(room, states, activations, stages, samples):
    for size in range(samples, 0, -1):
        kept = min(stages, samples // size) * size
        if samples % size == 0 and states + kept * activations <= room:
            return float(size)
    return 0.0

# %% wrong · the answer is 0
def largest_micro_batch(room, states, activations, stages, samples):
    sizes = [s for s in range(1, samples + 1) if samples % s == 0]
    return max(s for s in sizes if states + activations * min(stages * s, samples) <= room)

# %% wrong · the answer is 0.
def largest_micro_batch(room, states, activations, stages, samples):
    fitting = (room - states) // activations
    if fitting >= samples:
        return samples
    size = fitting // stages
    while size > 0 and samples % size:
        size -= 1
    return size

# %% wrong · this counts micro-batches
def largest_micro_batch(room, states, activations, stages, samples):
    sizes = [s for s in range(1, samples + 1) if samples % s == 0]
    fit = [s for s in sizes if states + activations * min(stages, samples // s) <= room]
    return max(fit, default=0)

# %% wrong · all samples in one micro-batch is a size
def largest_micro_batch(room, states, activations, stages, samples):
    sizes = [s for s in range(1, samples) if samples % s == 0]
    fit = [s for s in sizes if states + activations * min(stages * s, samples) <= room]
    return max(fit, default=0)
