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

# %% wrong · this is rounded
def exchange_seconds(how, n, X, B):
    return round(2 * (n - 1) * X / B / (n if how == "ring" else 1), 6)

# %% wrong · What is different here
def exchange_seconds(how, n, X, B):
    return 2 * (n - 1) * X / B / (n if how == "ring" and n <= 10 else 1)

# %% right · a dictionary
exchange_seconds = lambda how, n, X, B: {"server": n - 1, "ring": 1 - 1 / n}[how] * 2 * X / B
