# %% given
NAMES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

# %% right · with names of its own
def complete_batch(config, copies):
    train = config.get("train_batch_size")
    micro = config.get("train_micro_batch_size_per_gpu")
    steps = config.get("gradient_accumulation_steps")
    if train is None and micro is None:
        raise ValueError("one of both batch sizes is needed")
    if steps is None and (train is None or micro is None):
        steps = 1
    if train is None:
        train = micro * steps * copies
    elif micro is None:
        micro = train // (steps * copies)
    elif steps is None:
        steps = train // (micro * copies)
    if not micro or not steps or train != micro * steps * copies:
        raise ValueError("these do not agree")
    return {"train_batch_size": train, "train_micro_batch_size_per_gpu": micro,
            "gradient_accumulation_steps": steps}

# %% right · by divmod, one rule after another
def complete_batch(config, copies):
    T, M, A = ("train_batch_size", "train_micro_batch_size_per_gpu",
               "gradient_accumulation_steps")
    full = dict(config)
    if len(full) == 1:
        if A in full:
            raise ValueError("no batch size")
        full[A] = 1
    if len(full) == 2:
        if T not in full:
            full[T] = full[M] * full[A] * copies
        else:
            missing = M if A in full else A
            known = full[A if missing == M else M]
            full[missing], rest = divmod(full[T], known * copies)
            if rest:
                raise ValueError("a rest is left")
    if len(full) < 3 or 0 in full.values() or full[T] != full[M] * full[A] * copies:
        raise ValueError(str(config))
    return full

# %% wrong · these are the samples of one copy
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    if t is None and m is None:
        raise ValueError
    if t is None:
        a = a or 1
        t = m * a
    elif m is None:
        a = a or 1
        m = t // (a * copies)
    elif a is None:
        a = t // (m * copies)
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · each has its own part
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    if t is None and m is None:
        raise ValueError
    if t is None:
        a = a or 1
        t = m * a * copies
    elif m is None:
        a = a or 1
        m = t // (a * copies)
    elif a is None:
        a = t // m
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · each of them has its own part of a step
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    if t is None and m is None:
        raise ValueError
    if t is None:
        a = a or 1
        t = m * a * copies
    elif m is None:
        a = a or 1
        m = t // a
    elif a is None:
        a = t // (m * copies)
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · nothing may be corrected in silence
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    if t is None and m is None:
        raise ValueError
    if t is None:
        a = a or 1
        t = m * a * copies
    elif m is None:
        a = a or 1
        m = t // (a * copies)
    elif a is None:
        a = t // (m * copies)
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · 4 divides 20, and 2 divides 20
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    if t is None and m is None:
        raise ValueError
    a = a or (1 if t is None or m is None else None)
    if t is None:
        t = m * a * copies
    if t % copies or (m and t % m):
        raise ValueError
    if m is None:
        m = t // (a * copies)
    if a is None:
        a = t // (m * copies)
    elif t != m * a * copies:
        raise ValueError
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · any of the three names may be missing
def complete_batch(config, copies):
    t, m = config["train_batch_size"], config["train_micro_batch_size_per_gpu"]
    return dict(config, gradient_accumulation_steps=t // (m * copies))

# %% wrong · asked are whole numbers
# -     found = {key: config.get(key) for key in NAMES}
# +     found = {key: config.get(key) and float(config[key]) for key in NAMES}

# %% wrong · asked is a ValueError
def complete_batch(config, copies):
    t, m, a = (config.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps"))
    a = a or (1 if t is None or m is None else t // (m * copies))
    m = m or t // (a * copies)
    t = t or m * a * copies
    assert t == m * a * copies
    return {"train_batch_size": t, "train_micro_batch_size_per_gpu": m,
            "gradient_accumulation_steps": a}

# %% wrong · the dict is now
def complete_batch(config, copies):
    config.setdefault("gradient_accumulation_steps", 1)
    return config

# %% wrong · without `return`
def complete_batch(config, copies):
    dict(config)

# %% wrong · an error is raised, and not returned
# -         raise ValueError(f"{train} is not {micro} × {steps} × {copies}")
# +         return ValueError(f"{train} is not {micro} × {steps} × {copies}")

# %% wrong · this is possible: 16 = 4 × 2 × 2
# -     if len(config) == 1:
# -         steps = 1
# +     if steps is None:
# +         steps = 1

# %% wrong · what is missing follows from the rule
def complete_batch(config, copies):
    filled = dict.fromkeys(NAMES, 1) | config
    if "train_batch_size" not in config:
        filled[NAMES[0]] = filled[NAMES[1]] * filled[NAMES[2]] * copies
    elif NAMES[2] not in config:
        filled[NAMES[2]] = filled[NAMES[0]] // (filled[NAMES[1]] * copies)
    return filled
