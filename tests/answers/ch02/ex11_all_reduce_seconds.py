# %% right · two halves
import math

def all_reduce_seconds(how, n, X, alpha, B):
    halves = 2
    if how == "ring":
        return halves * (n - 1) * (alpha + X / n / B)
    return halves * math.ceil(math.log2(n)) * (alpha + X / B)

# %% right · multiplied out, with bits
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * alpha + 2 * (n - 1) / n * X / B
    return 2 * (n - 1).bit_length() * (alpha + X / B)

# %% wrong · the latency is missing
import math

def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * X / n / B
    return 2 * math.ceil(math.log2(n)) * X / B
