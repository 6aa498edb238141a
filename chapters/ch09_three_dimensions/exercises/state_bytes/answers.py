# %% right · a table of stages
def state_bytes(parameters, sizes, stage):
    sharded = [0, 12, 14, 16][stage]
    part = parameters / (sizes["tp"] * sizes["pp"])
    return part * (16 - sharded) + part * sharded / sizes["dp"]

# %% right · kind by kind
def state_bytes(parameters, sizes, stage):
    dp = sizes["dp"]
    each = (2 / dp if stage == 3 else 2) + (2 / dp if stage > 1 else 2) + (12 / dp if stage else 12)
    return each * parameters / sizes["tp"] / sizes["pp"]

# %% wrong · ZeRO did nothing
def state_bytes(parameters, sizes, stage):
    return 16 * parameters / sizes["tp"] / sizes["pp"]

# %% wrong · shards along dp alone
def state_bytes(parameters, sizes, stage):
    n = sizes["tp"] * sizes["pp"] * sizes["dp"]
    sharded = [0, 12, 14, 16][stage]
    return parameters / sizes["tp"] / sizes["pp"] * (16 - sharded + sharded / n)

# %% wrong · a rank has the layers of its own stage
def state_bytes(parameters, sizes, stage):
    sharded = [0, 12, 14, 16][stage]
    return parameters / sizes["tp"] * (16 - sharded + sharded / sizes["dp"])

# %% wrong · stage 1 shards the optimizer's 12 bytes
def state_bytes(parameters, sizes, stage):
    sharded = [0, 2, 4, 16][stage]
    return parameters / sizes["tp"] / sizes["pp"] * (16 - sharded + sharded / sizes["dp"])

# %% wrong · nothing of a rank's part is there in every copy
def state_bytes(parameters, sizes, stage):
    sharded = [0, 12, 14, 14][stage]
    return parameters / sizes["tp"] / sizes["pp"] * (16 - sharded + sharded / sizes["dp"])

# %% wrong · expected
def state_bytes(parameters, sizes, stage):
    dp, pp, tp = sizes.values()
    part, sharded = parameters / (tp * pp), (0, 12, 14, 16)[stage]
    return part * (16 - sharded + sharded / dp)

# %% wrong · expected
def state_bytes(parameters, sizes, stage):
    part, sharded = 9600 / (sizes["tp"] * sizes["pp"]), (0, 12, 14, 16)[stage]
    return part * (16 - sharded + sharded / sizes["dp"])
