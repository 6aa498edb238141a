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
