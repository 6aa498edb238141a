# %% right · one line
def exchange_seconds(how, n, X, B):
    return 2 * (n - 1) * X / B if how == "server" else 2 * (n - 1) / n * X / B

# %% right · in steps
def exchange_seconds(how, n, X, B):
    if how == "ring":
        seconds_of_a_message = X / n / B
        return sum(seconds_of_a_message for half in range(2) for step in range(n - 1))
    pull = push = sum(X / B for worker in range(1, n))
    return pull + push

# %% right · as a tensor
def exchange_seconds(how, n, X, B):
    volume = torch.tensor(2 * X) * (n - 1)
    return volume / B if how == "server" else volume / n / B

# %% wrong · without `return`
def exchange_seconds(how, n, X, B):
    if how == "server":
        seconds = 2 * (n - 1) * X / B
    seconds = 2 * (n - 1) / n * X / B

# %% wrong · X and B both count bytes: no
def exchange_seconds(how, n, X, B):
    if how == "server":
        return 8 * 2 * (n - 1) * X / B
    return 8 * 2 * (n - 1) / n * X / B

# %% wrong · divide them by
# -         return 2 * (n - 1) * X / B
# +         return 2 * (n - 1) * X

# %% wrong · a faster link makes it shorter
# -         return 2 * (n - 1) * X / B
# +         return 2 * (n - 1) * X * B

# %% wrong · upside down
# -         return 2 * (n - 1) * X / B
# +         return 2 * (n - 1) * B / X

# %% wrong · milliseconds
def exchange_seconds(how, n, X, B):
    if how == "server":
        return 1000 * 2 * (n - 1) * X / B
    return 1000 * 2 * (n - 1) / n * X / B

# %% wrong · the server is no worker
# -         return 2 * (n - 1) * X / B
# +         return 2 * n * X / B

# %% wrong · A worker pulls X and pushes X
# -         return 2 * (n - 1) * X / B
# +         return (n - 1) * X / B

# %% wrong · and the server is counted
# -         return 2 * (n - 1) * X / B
# +         return n * X / B

# %% wrong · all copies go at the same time
# -         return 2 * (n - 1) * X / B
# +         return 2 * X / B

# %% wrong · this is one copy
# -         return 2 * (n - 1) * X / B
# +         return X / B

# %% wrong · this is what a ring takes
# -         return 2 * (n - 1) * X / B
# +         return 2 * (n - 1) / n * X / B

# %% wrong · that would be a tree, in which workers pass the weights on. Here
# -         return 2 * (n - 1) * X / B
# +         return 2 * (n - 1).bit_length() * X / B

# %% wrong · both ends of each copy
# -         return 2 * (n - 1) * X / B
# +         return 4 * (n - 1) * X / B

# %% wrong · speak with the server alone
# -         return 2 * (n - 1) * X / B
# +         return n * (n - 1) * X / B

# %% wrong · what all ranks send together
# -     return 2 * (n - 1) / n * X / B
# +     return 2 * (n - 1) * X / B

# %% wrong · one step too many
# -     return 2 * (n - 1) / n * X / B
# +     return 2 * X / B

# %% wrong · An all-gather has to follow
# -     return 2 * (n - 1) / n * X / B
# +     return (n - 1) / n * X / B

# %% wrong · sends and receives at the same time
# -     return 2 * (n - 1) / n * X / B
# +     return 4 * (n - 1) / n * X / B

# %% wrong · one message in each half
# -     return 2 * (n - 1) / n * X / B
# +     return 2 * X / n / B

# %% wrong · this is one message, of
# -     return 2 * (n - 1) / n * X / B
# +     return X / n / B

# %% wrong · X bytes once over a link
# -     return 2 * (n - 1) / n * X / B
# +     return X / B

# %% wrong · in a ring there is no server
# -     return 2 * (n - 1) / n * X / B
# +     return 2 * (n - 2) / (n - 1) * X / B

# %% wrong · that is a tree
# -     return 2 * (n - 1) / n * X / B
# +     return 2 * (n - 1).bit_length() * X / B

# %% wrong · expected a number, got '1.0'
def exchange_seconds(how, n, X, B):
    return "1.0"

# %% wrong · return 1 / 0
def exchange_seconds(how, n, X, B):
    return 1 / 0
