# %% right · a logarithm
import math

def tree_seconds(n, megabytes, megabytes_per_second):
    return math.ceil(math.log2(n)) * megabytes / megabytes_per_second

# %% right · bits
def tree_seconds(n, megabytes, megabytes_per_second):
    return (n - 1).bit_length() * megabytes / megabytes_per_second

# %% right · a loop
def tree_seconds(n, megabytes, megabytes_per_second):
    rounds = 0
    while 2**rounds < n:
        rounds += 1
    return rounds * megabytes / megabytes_per_second

# %% wrong · this is one after another
def tree_seconds(n, megabytes, megabytes_per_second):
    return (n - 1) * megabytes / megabytes_per_second

# %% wrong · without `return`
import math

def tree_seconds(n, megabytes, megabytes_per_second):
    math.ceil(math.log2(n)) * megabytes / megabytes_per_second
