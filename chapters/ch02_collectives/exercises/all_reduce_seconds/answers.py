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

# %% right · a simulation of the clock
def all_reduce_seconds(how, n, X, alpha, B):
    seconds = 0.0
    if how == "ring":
        for _ in range(2):
            for _ in range(1, n):
                seconds += alpha + X / n / B
        return seconds
    have = 1
    while have < n:
        have *= 2
        seconds += 2 * (alpha + X / B)
    return seconds

# %% right · a dict
def all_reduce_seconds(how, n, X, alpha, B):
    steps, size = {"ring": (n - 1, X / n), "tree": (len(bin(n - 1)) - 2, X)}[how]
    return 2 * steps * (alpha + size / B)

# %% wrong · the logarithm to base 2
import math
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    return 2 * math.ceil(math.sqrt(n)) * (alpha + X / B)

# %% wrong · however little it is
import math
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    return 2 * round(math.log2(n) + 0.3) * (alpha + X / B)

# %% wrong · bits are nowhere asked for
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * (alpha + 8 * X / n / B)
    return 2 * (n - 1).bit_length() * (alpha + 8 * X / B)

# %% wrong · send and receive at the same time
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 4 * (n - 1) * (alpha + X / n / B)
    return 4 * (n - 1).bit_length() * (alpha + X / B)

# %% wrong · still costs a whole latency
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / B) / n
    return 2 * (n - 1).bit_length() * (alpha + X / B)

# %% wrong · falls together with one of the reduce
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    return (2 * (n - 1).bit_length() - 1) * (alpha + X / B)

# %% wrong · both spent, one after the other
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2 * (n - 1) * max(alpha, X / n / B)
    return 2 * (n - 1).bit_length() * max(alpha, X / B)

# %% wrong · asked are seconds
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "ring":
        return 2000 * (n - 1) * (alpha + X / n / B)
    return 2000 * (n - 1).bit_length() * (alpha + X / B)

# %% wrong · in small letters
def all_reduce_seconds(how, n, X, alpha, B):
    if how == "Ring":
        return 2 * (n - 1) * (alpha + X / n / B)
    return 2 * (n - 1).bit_length() * (alpha + X / B)
