# %% right · from the largest one down
def largest_context(budget, n, heads, size, way):
    def bytes_of(c):
        own_heads = heads // n if way == "by heads" else heads
        queries = c // n if way in ("ring", "all keys") else c
        at_once = queries if way == "ring" else c
        keys = c if way == "all keys" else queries
        return 4 * own_heads * (queries * at_once + queries * size + 2 * keys * size)
    context = n
    while bytes_of(context) <= budget:
        context += n
    return context - n

# %% right · by halving
def largest_context(budget, n, heads, size, way):
    def fits(steps):
        c, piece = steps * n, steps
        numbers = {
            "one process": heads * c * (c + 3 * size),
            "all keys": heads * (piece * c + piece * size + 2 * c * size),
            "by heads": heads // n * c * (c + 3 * size),
            "ring": heads * piece * (piece + 3 * size),
        }[way]
        return 4 * numbers <= budget
    low, high = 0, 10_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * n

# %% wrong · queries, keys and values take room as well
def largest_context(budget, n, heads, size, way):
    share = {"one process": 1, "all keys": n, "by heads": n, "ring": n * n}[way]
    context = 0
    while 4 * heads * (context + n) ** 2 // share <= budget:
        context += n
    return context

# %% wrong · this is the piece of one rank
# -     return context
# +     return context if way == "one process" else context // n

# %% wrong · it does not fit any more
# -     return context
# +     return context + n

# %% wrong · a number in float32 has 4 bytes
# -     while count_bytes(context + n) <= budget:
# +     while count_bytes(context + n) <= 4 * budget:

# %% wrong · one piece of keys
def largest_context(budget, n, heads, size, way):
    def count_bytes(c):
        piece = c // n
        if way == "by heads":
            return 4 * (heads // n) * (c * c + 3 * c * size)
        if way == "one process":
            return 4 * heads * (c * c + 3 * c * size)
        keys = c if way == "all keys" else piece
        return 4 * heads * (piece * c + (piece + 2 * keys) * size)
    context = 0
    while count_bytes(context + n) <= budget:
        context += n
    return context

# %% wrong · keys and values are two tensors
def largest_context(budget, n, heads, size, way):
    def count_bytes(c):
        own_heads = heads // n if way == "by heads" else heads
        queries = c // n if way in ("ring", "all keys") else c
        keys = c // n if way == "ring" else c
        return 4 * own_heads * (queries * keys + (queries + keys) * size)
    context = 0
    while count_bytes(context + n) <= budget:
        context += n
    return context

# %% wrong · still fits
# -     while count_bytes(context + n) <= budget:
# +     while count_bytes(context + n) < budget:
