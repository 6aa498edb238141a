# %% right · overlaps with every old rank
def pieces_to_read(length, old, new, rank):
    pieces = []
    here, there = -(-length // new), -(-length // old)
    for k in range(old):
        begin = max(rank * here, k * there)
        end = min((rank + 1) * here, (k + 1) * there, length)
        if begin < end:
            pieces.append((k, begin - k * there, end - k * there))
    return pieces

# %% right · number by number
def pieces_to_read(length, old, new, rank):
    here, there = math_ceil(length, new), math_ceil(length, old)
    found = {}
    for number in range(rank * here, min((rank + 1) * here, length)):
        k, place = divmod(number, there)
        first, _ = found.get(k, (place, place))
        found[k] = first, place + 1
    return [(k, a, b) for k, (a, b) in found.items()]

def math_ceil(a, b):
    return -(-a // b)

# %% wrong · it returned None
def pieces_to_read(length, old, new, rank):
    return None

# %% wrong · a list of (old rank, begin, end)
def pieces_to_read(length, old, new, rank):
    return length
