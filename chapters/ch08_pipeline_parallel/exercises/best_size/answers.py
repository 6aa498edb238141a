# %% right · sorted pairs
def best_size(seconds_of, samples, stages):
    return sorted(
        ((samples / b + stages - 1) * t, b) for b, t in seconds_of.items()
        if not samples % b
    )[0][1]

# %% right · a loop
def best_size(seconds_of, samples, stages):
    best, least = None, float("inf")
    for b, t in seconds_of.items():
        m = samples / b
        if m == int(m) and (m - 1) * t + stages * t < least:
            best, least = float(b), (m - 1) * t + stages * t
    return best

# %% wrong · this one computes fastest for each sample
# -         return (samples // size + stages - 1) * seconds_of[size]
# +         return seconds_of[size] / size

# %% wrong · it does not divide the batch
# -     return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
# +     return min(seconds_of, key=step_seconds)

# %% wrong · asked is the size alone
# -     return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
# +     return min((step_seconds(size), size) for size in seconds_of if samples % size == 0)

# %% wrong · it belongs to the caller
# -     return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
# +     for size in [size for size in seconds_of if samples % size]:
# +         del seconds_of[size]
# +     return min(seconds_of, key=step_seconds)

# %% wrong · a function without `return`
# -     return min((size for size in seconds_of if samples % size == 0), key=step_seconds)
# +     min((size for size in seconds_of if samples % size == 0), key=step_seconds)

# %% wrong · samples % size == 0
def best_size(seconds_of, samples, stages):
    def step(size):
        return (samples // size + stages - 1) * seconds_of[size]
    return min((size for size in seconds_of if size % samples == 0), key=step)
