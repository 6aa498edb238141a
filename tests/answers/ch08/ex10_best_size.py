# %% right · the solution
def best_size(seconds_of, samples, stages):
    def step_seconds(size):
        return (samples // size + stages - 1) * seconds_of[size]
    return min((size for size in seconds_of if samples % size == 0), key=step_seconds)

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
def best_size(seconds_of, samples, stages):
    sizes = [b for b in seconds_of if samples % b == 0]
    return min(sizes, key=lambda b: seconds_of[b] / b)

# %% wrong · asked is the size alone
def best_size(seconds_of, samples, stages):
    sizes = [b for b in seconds_of if samples % b == 0]
    return min(((samples / b + stages - 1) * seconds_of[b], b) for b in sizes)

# %% wrong · it belongs to the caller
def best_size(seconds_of, samples, stages):
    for b in [b for b in seconds_of if samples % b]:
        del seconds_of[b]
    return min(seconds_of, key=lambda b: (samples / b + stages - 1) * seconds_of[b])

# %% wrong · a function without `return`
def best_size(seconds_of, samples, stages):
    sizes = [b for b in seconds_of if samples % b == 0]
    min(sizes, key=lambda b: (samples / b + stages - 1) * seconds_of[b])
