# %% right · one line
def exchange_seconds(how, n, X, B):
    return 2 * (n - 1) * X / B if how == "server" else 2 * (n - 1) / n * X / B

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

# %% wrong · expected a number, got '1.0'
def exchange_seconds(how, n, X, B):
    return "1.0"

# %% wrong · return 1 / 0
def exchange_seconds(how, n, X, B):
    return 1 / 0
