# %% right · with an if
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    if memory > computing:
        return memory, "memory"
    return computing, "computing"

# %% right · as a list, by intensity
def roofline_seconds(flops, nbytes, peak, bandwidth):
    ridge = peak / bandwidth
    if flops / nbytes < ridge:
        return [nbytes / bandwidth, "memory"]
    return [flops / peak, "computing"]

# %% wrong · two values
def roofline_seconds(flops, nbytes, peak, bandwidth):
    return max(flops / peak, nbytes / bandwidth)

# %% wrong · one after the other
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    return computing + memory, "computing" if computing >= memory else "memory"

# %% right · one after another, sorted
def roofline_seconds(flops, nbytes, peak, bandwidth):
    pairs = (flops / peak, "computing"), (nbytes / bandwidth, "memory")
    yield from sorted(pairs, key=lambda pair: -pair[0])[0]

# %% wrong · the seconds come first
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    return "computing" if computing >= memory else "memory", max(computing, memory)

# %% wrong · the second value is a name: "computing" or "memory"
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    return max(computing, memory), "compute" if computing >= memory else "memory"

# %% wrong · two values are asked
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    return computing, memory, "computing" if computing >= memory else "memory"

# %% wrong · without quotes
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops / peak, nbytes / bandwidth
    return f"{max(computing, memory)} s", "computing" if computing >= memory else "memory"

# %% wrong · // rounds them down
def roofline_seconds(flops, nbytes, peak, bandwidth):
    computing, memory = flops // peak, nbytes // bandwidth
    return max(computing, memory), "computing" if computing >= memory else "memory"

# %% wrong · this is the faster of both, and its name
def roofline_seconds(flops, nbytes, peak, bandwidth):
    return min((flops / peak, "computing"), (nbytes / bandwidth, "memory"))
