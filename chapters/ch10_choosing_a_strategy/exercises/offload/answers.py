# %% right · by cases
def offload(parameters, ranks, link, host, backward):
    share = parameters / ranks
    seconds = share * 2 / link
    if seconds > backward:
        waiting = seconds - backward
    else:
        waiting = 0
    return dict(gradients=waiting, update=28 * parameters / host, parameters=seconds)

# %% right · bytes first, with numpy
import numpy as np
def offload(parameters, ranks, link, host, backward):
    nbytes = np.array([2.0, 2.0]) * parameters / ranks
    out, back = nbytes / link
    waits = {"parameters": back, "update": np.float64(parameters) * (2 + 12 + 12 + 2) / host}
    waits["gradients"] = np.clip(out - backward, 0, None)
    return waits

# %% right · a rank at a time
def offload(parameters, ranks, link, host, backward):
    update = sum(parameters / ranks * 28 / host for _ in range(ranks))
    end = max(backward, 2 * parameters / (ranks * link))
    return {"update": update, "gradients": end - backward,
            "parameters": 2 * parameters / (ranks * link)}

# %% wrong · gradients leave while the backward computes
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / ranks / link
    return {"gradients": moved, "update": 28 * parameters / host, "parameters": moved}

# %% wrong · no time is negative
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / ranks / link
    return {"gradients": moved - backward, "update": 28 * parameters / host, "parameters": moved}

# %% wrong · a rank moves its share alone
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / link
    return {"gradients": max(0, moved - backward), "update": 28 * parameters / host,
            "parameters": moved}

# %% wrong · all ranks use the same memory of the CPUs
def offload(parameters, ranks, link, host, backward):
    share = parameters / ranks
    moved = 2 * share / link
    return {"gradients": max(0, moved - backward), "update": 28 * share / host,
            "parameters": moved}

# %% wrong · nothing hides them
def offload(parameters, ranks, link, host, backward):
    exposed = max(0, 2 * parameters / ranks / link - backward)
    return {"gradients": exposed, "update": 28 * parameters / host, "parameters": exposed}

# %% wrong · the update needs 28 bytes
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / ranks / link
    return {"gradients": max(0, moved - backward), "update": 12 * parameters / host,
            "parameters": moved}

# %% wrong · in 16 bits
def offload(parameters, ranks, link, host, backward):
    moved = 4 * parameters / ranks / link
    return {"gradients": max(0, moved - backward), "update": 28 * parameters / host,
            "parameters": moved}

# %% wrong · three numbers
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / ranks / link
    return max(0, moved - backward), 28 * parameters / host, moved

# %% wrong · not those that travel
def offload(parameters, ranks, link, host, backward):
    moved = 2 * parameters / ranks / link
    return {"gradients": max(0, moved - backward), "update": 2 * parameters / host,
            "parameters": moved}
