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
