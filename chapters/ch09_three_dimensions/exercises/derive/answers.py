# %% right · all at once
def derive(arguments, world_size):
    a = arguments
    dp, rest = divmod(world_size, a["tp"] * a["pp"])
    if rest or a["layers"] % a["pp"] or a["heads"] % a["tp"] or not dp:
        raise ValueError("does not divide")
    if a["global_batch"] % (dp * a["micro_batch"]):
        raise ValueError("batch")
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // dp // a["micro_batch"])

# %% right · with fractions
def derive(arguments, world_size):
    from fractions import Fraction
    a = arguments
    dp = Fraction(world_size, a["tp"] * a["pp"])
    found = {"dp": dp, "layers": Fraction(a["layers"], a["pp"]),
             "heads": Fraction(a["heads"], a["tp"]),
             "microbatches": Fraction(a["global_batch"], a["micro_batch"]) / dp}
    if any(x.denominator != 1 for x in found.values()):
        raise ValueError(str(found))
    return {key: int(x) for key, x in found.items()}

# %% wrong · the number of ranks has to be a multiple
def derive(arguments, world_size):
    a = arguments
    dp = world_size // (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // (a["micro_batch"] * max(1, dp)))

# %% wrong · not tp alone
def derive(arguments, world_size):
    a = arguments
    dp = world_size // a["tp"]
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // (a["micro_batch"] * dp))

# %% wrong · shared out among the copies first
def derive(arguments, world_size):
    a = arguments
    dp = world_size // (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // a["micro_batch"])

# %% wrong · Several of them make a micro-batch
def derive(arguments, world_size):
    a = arguments
    dp = world_size // (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // dp)

# %% wrong · asked are whole numbers
def derive(arguments, world_size):
    a = arguments
    dp = world_size / (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] / a["pp"], heads=a["heads"] / a["tp"],
                microbatches=a["global_batch"] / (a["micro_batch"] * dp))

# %% wrong · asked is a ValueError
def derive(arguments, world_size):
    a = arguments
    assert world_size % (a["tp"] * a["pp"]) == 0
    dp = world_size // (a["tp"] * a["pp"])
    assert a["layers"] % a["pp"] == 0 and a["heads"] % a["tp"] == 0
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // (a["micro_batch"] * dp))

# %% wrong · each copy gets as many samples
def derive(arguments, world_size):
    a = arguments
    if world_size % (a["tp"] * a["pp"]) or a["layers"] % a["pp"] or a["heads"] % a["tp"]:
        raise ValueError
    dp = world_size // (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] // a["pp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // (a["micro_batch"] * dp))

# %% wrong · layers are shared out among stages
def derive(arguments, world_size):
    a = arguments
    dp = world_size // (a["tp"] * a["pp"])
    return dict(dp=dp, layers=a["layers"] // a["tp"], heads=a["heads"] // a["tp"],
                microbatches=a["global_batch"] // (a["micro_batch"] * dp))

# %% wrong · its share, not the whole batch
def derive(arguments, world_size):
    a = arguments
    ranks = a["tp"] * a["pp"]
    checks = [world_size % ranks, a["layers"] % a["pp"], a["heads"] % a["tp"]]
    if world_size < ranks or any(checks) or a["global_batch"] % (world_size // ranks):
        raise ValueError
    if a["global_batch"] % a["micro_batch"]:
        raise ValueError
    dp = world_size // ranks
    return {"dp": dp, "layers": a["layers"] // a["pp"], "heads": a["heads"] // a["tp"],
            "microbatches": a["global_batch"] // dp // a["micro_batch"]}

# %% wrong · of their product, not of each
def derive(arguments, world_size):
    a = arguments
    dp = world_size // (a["tp"] * a["pp"])
    checks = [world_size % a["tp"], world_size % a["pp"], a["layers"] % a["pp"]]
    if dp == 0 or any(checks) or a["heads"] % a["tp"] or a["global_batch"] % dp:
        raise ValueError
    if a["global_batch"] // dp % a["micro_batch"]:
        raise ValueError
    return {"dp": dp, "layers": a["layers"] // a["pp"], "heads": a["heads"] // a["tp"],
            "microbatches": a["global_batch"] // dp // a["micro_batch"]}

# %% wrong · the arguments are now
# -     dp = share(world_size, arguments["tp"] * arguments["pp"], "ranks")
# +     dp = share(world_size, arguments["tp"] * arguments["pp"], "ranks")
# +     arguments["dp"] = dp

# %% wrong · SystemExit
def derive(arguments, world_size):
    exit()
