# %% right · one direction, twice
def resharding_bytes(nbytes, n, before, after) -> float:
    def one_way(a, b):
        if a == b or a == "whole":
            return 0
        part = nbytes / n
        return (n - 1) * (part if b == "whole" else part / n)

    return one_way(before, after) + one_way(after, before)

# %% right · a table
def resharding_bytes(nbytes, n, before, after) -> float:
    gather, swap = nbytes * (n - 1) / n, 2 * nbytes * (n - 1) / n / n
    table = {("samples", "features"): swap, ("whole", "samples"): gather,
             ("features", "whole"): gather}
    table |= {(b, a): x for (a, b), x in table.items()}
    return table.get((before, after), 0.0)

# %% wrong · this is the forward alone
def resharding_bytes(nbytes, n, before, after) -> float:
    if before in (after, "whole"):
        return 0.0
    return (n - 1) / n * nbytes if after == "whole" else (n - 1) / n**2 * nbytes

# %% wrong · forward is free
# -     if before == after:
# +     if before == after or before == WHOLE:

# %% wrong · the gradient is whole on each device already
# -     if WHOLE in (before, after):
# -         return (n - 1) / n * nbytes
# +     if WHOLE in (before, after):
# +         return (n - 1) / n * nbytes * (1 if before == WHOLE else 2)

# %% wrong · both directions count
# -     return 2 * (n - 1) / n**2 * nbytes
# +     return (n - 1) / n**2 * nbytes

# %% wrong · a device keeps the part that it needs itself
# -     return 2 * (n - 1) / n**2 * nbytes
# +     return 2 * nbytes / n

# %% wrong · needs no whole activation
# -     return 2 * (n - 1) / n**2 * nbytes
# +     return 2 * (n - 1) / n * nbytes

# %% wrong · if the layout stays
# -     if before == after:
# -         return 0.0
# +     if before == after == WHOLE:
# +         return 0.0

# %% wrong · what all devices send together
# -     if WHOLE in (before, after):
# -         return (n - 1) / n * nbytes
# -     return 2 * (n - 1) / n**2 * nbytes
# +     if WHOLE in (before, after):
# +         return (n - 1) * nbytes
# +     return 2 * (n - 1) / n * nbytes

# %% wrong · bytes may be a fraction here
# -         return (n - 1) / n * nbytes
# +         return (n - 1) * (nbytes // n)

# %% wrong · features are a layout such as samples
def resharding_bytes(nbytes, n, before, after):
    parts = {("whole", "samples"): n - 1, ("samples", "whole"): n - 1,
             ("samples", "features"): 2 * (n - 1) / n, ("features", "samples"): 2 * (n - 1) / n}
    return parts.get((before, after), 0) * nbytes / n
