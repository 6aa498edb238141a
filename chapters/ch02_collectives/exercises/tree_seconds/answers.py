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

# %% right · halves that lack it
def tree_seconds(n, megabytes, megabytes_per_second):
    if n <= 1:
        return 0.0
    return megabytes / megabytes_per_second + tree_seconds((n + 1) // 2, megabytes, megabytes_per_second)

# %% wrong · a number of an example is written in
def tree_seconds(n, megabytes, megabytes_per_second):
    return (n - 1).bit_length() * 3.125

# %% wrong · the megabytes are not used
def tree_seconds(n, megabytes, megabytes_per_second):
    return (n - 1).bit_length() * 5 / megabytes_per_second

# %% wrong · there is no logarithm of 0
import math
def tree_seconds(n, megabytes, megabytes_per_second):
    return (int(math.log2(n - 1)) + 1) * megabytes / megabytes_per_second

# %% wrong · one computer alone has the file already
def tree_seconds(n, megabytes, megabytes_per_second):
    return (len(bin(n - 1)) - 2) * megabytes / megabytes_per_second

# %% wrong · the speed is not used
def tree_seconds(n, megabytes, megabytes_per_second):
    return (n - 1).bit_length() * megabytes / 1.6
