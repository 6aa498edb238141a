# %% right · step by step
def bill(parameters, tokens, gpus, peak, mfu, price):
    seconds = 6 * parameters * tokens / (gpus * peak * mfu)
    gpu_hours = seconds * gpus / 3600
    return {"days": seconds / 86400, "gpu_hours": gpu_hours, "dollars": gpu_hours * price}

# %% right · hours of one GPU first
def bill(parameters, tokens, gpus, peak, mfu, price):
    result = {}
    result["gpu_hours"] = 6 * parameters * tokens / (peak * mfu) / 3600
    result["dollars"] = price * result["gpu_hours"]
    result["days"] = result["gpu_hours"] / gpus / 24
    return result

# %% wrong · forwards alone
def bill(parameters, tokens, gpus, peak, mfu, price):
    hours = 2 * parameters * tokens / (peak * mfu) / 3600
    return {"days": hours / gpus / 24, "gpu_hours": hours, "dollars": hours * price}

# %% wrong · three numbers
def bill(parameters, tokens, gpus, peak, mfu, price):
    hours = 6 * parameters * tokens / (peak * mfu) / 3600
    return hours / gpus / 24, hours, hours * price

# %% right · a table of factors
from collections import defaultdict
def bill(parameters, tokens, gpus, peak, mfu, price):
    flops, found = 6 * parameters * tokens, defaultdict(float)
    factors = {"dollars": price / 3600, "days": 1 / gpus / 86400, "gpu_hours": 1 / 3600}
    for key, factor in factors.items():
        found[key] += flops / peak / mfu * factor
    return found

# %% wrong · a number of percent
def bill(parameters, tokens, gpus, peak, mfu, price):
    hours = 6 * parameters * tokens / (peak * mfu / 100) / 3600
    return {"days": hours / gpus / 24, "gpu_hours": hours, "dollars": hours * price}

# %% wrong · this multiplies by the MFU
def bill(parameters, tokens, gpus, peak, mfu, price):
    hours = 6 * parameters * tokens / peak * mfu / 3600
    return {"days": hours / gpus / 24, "gpu_hours": hours, "dollars": hours * price}

# %% wrong · all GPUs work at the same time
def bill(parameters, tokens, gpus, peak, mfu, price):
    seconds = 6 * parameters * tokens / (peak * mfu)
    hours = seconds * gpus / 3600
    return {"days": seconds / 86400, "gpu_hours": hours, "dollars": hours * price}
