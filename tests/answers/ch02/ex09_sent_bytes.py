# %% right · a table
def sent_bytes(name, n, X):
    return {"all_reduce": 2}.get(name, 1) * (n - 1) * X / n

# %% right · all but one n-th
def sent_bytes(name, n, X):
    return X * (1 - 1 / n) * (2 if name == "all_reduce" else 1)

# %% wrong · bytes are in proportion to X
# -     return times_round * (n - 1) * X / n
# +     return times_round * (n - 1) * (X // n)

# %% wrong · this is in MB
# -     return times_round * (n - 1) * X / n
# +     return times_round * (n - 1) * X / n / 1e6
