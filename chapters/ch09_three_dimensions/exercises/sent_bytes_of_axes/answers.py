# %% right · step by step
def sent_bytes(sizes, stage, activation_bytes, blocks, parameter_bytes):
    def all_reduce(n, x):
        return 2 * (n - 1) / n * x
    found = {axis: 0 for axis in sizes}
    found["dp"] = all_reduce(sizes["dp"], parameter_bytes)
    if stage > 0:
        found["pp"] += activation_bytes
    if stage + 1 < sizes["pp"]:
        found["pp"] += activation_bytes
    for _ in range(blocks):
        found["tp"] += 4 * all_reduce(sizes["tp"], activation_bytes)
    return found

# %% right · with fractions
def sent_bytes(sizes, stage, activation_bytes, blocks, parameter_bytes):
    ring = {axis: 2 - 2 / n for axis, n in sizes.items()}
    neighbours = len([k for k in (stage - 1, stage + 1) if k in range(sizes["pp"])])
    return dict(dp=ring["dp"] * parameter_bytes, pp=neighbours * activation_bytes,
                tp=ring["tp"] * 4 * blocks * activation_bytes)

# %% wrong · under the keys dp, pp and tp
def sent_bytes(sizes, stage, activation_bytes, blocks, parameter_bytes):
    return 2 * parameter_bytes + activation_bytes

# %% wrong · expected
def sent_bytes(sizes, stage, activation_bytes, blocks, parameter_bytes):
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    return {
        "dp": 2 * (dp - 1) * (parameter_bytes // dp),
        "pp": ((stage > 0) + (stage < pp - 1)) * activation_bytes,
        "tp": 4 * blocks * 2 * (tp - 1) * (activation_bytes // tp),
    }
