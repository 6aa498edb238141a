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

# %% wrong · also where n does not divide it
def sent_bytes(name, n, X):
    if X % n:
        raise ValueError("X must be divisible by n")
    return (2 if name == "all_reduce" else 1) * (n - 1) * X / n

# %% wrong · a branch without `return`
def sent_bytes(name, n, X):
    if X % n == 0:
        return (2 if name == "all_reduce" else 1) * (n - 1) * X / n

# %% wrong · Is a factor rounded
def sent_bytes(name, n, X):
    return round((2 if name == "all_reduce" else 1) * (n - 1) / n, 2) * X

# %% wrong · Is a factor rounded
def sent_bytes(name, n, X):
    once = {2: 0.5, 3: 0.667, 4: 0.75}[n]
    return (2 if name == "all_reduce" else 1) * once * X

# %% wrong · or are headers counted
def sent_bytes(name, n, X):
    return (2 if name == "all_reduce" else 1) * (n - 1) * X / n * 1.005

# %% wrong · what a rank receives, another one has sent
def sent_bytes(name, n, X):
    return 2 * (2 if name == "all_reduce" else 1) * (n - 1) * X / n

# %% wrong · this is what Gloo's own reduce_scatter sends
def sent_bytes(name, n, X):
    return (2 if name in ("all_reduce", "reduce_scatter") else 1) * (n - 1) * X / n

# %% wrong · A formula holds for every n
def sent_bytes(name, n, X):
    once = {2: 1 / 2, 3: 2 / 3, 4: 3 / 4}
    return (2 if name == "all_reduce" else 1) * once[n] * X

# %% wrong · one message too many in the all-to-all
def sent_bytes(name, n, X):
    if name == "all_to_all":
        return X
    return (2 if name == "all_reduce" else 1) * (n - 1) / n * X
