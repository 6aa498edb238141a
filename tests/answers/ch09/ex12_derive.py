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
