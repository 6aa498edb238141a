# %% right · a table
def sent_bytes(name, n, X):
    return {"all_reduce": 2}.get(name, 1) * (n - 1) * X / n

# %% right · all but one n-th
def sent_bytes(name, n, X):
    return X * (1 - 1 / n) * (2 if name == "all_reduce" else 1)

# %% wrong · this is in MB
# -     return times_round * (n - 1) * X / n
# +     return times_round * (n - 1) * X / n / 1e6

# %% wrong · what all ranks send together
# -     return times_round * (n - 1) * X / n
# +     return n * (times_round * (n - 1) * X / n)

# %% wrong · the whole tensor would travel
# -     return times_round * (n - 1) * X / n
# +     return (n - 1) * X if n > 2 else times_round * (n - 1) * X / n

# %% wrong · one step too many in each half
def sent_bytes(name, n, X):
    return 2 * X

# %% wrong · an all-reduce is a reduce-scatter and an all-gather
def sent_bytes(name, n, X):
    return (n - 1) * X / n

# %% wrong · only an all-reduce goes round the ring twice
def sent_bytes(name, n, X):
    return 2 * (n - 1) * X / n

# %% wrong · this is one message
def sent_bytes(name, n, X):
    return X / n
