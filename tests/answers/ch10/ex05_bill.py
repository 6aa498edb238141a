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
