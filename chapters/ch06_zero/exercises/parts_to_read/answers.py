# %% right · number by number, grouped
import itertools
import math


def parts_to_read(length, before, now, rank):
    old, new = math.ceil(length / before), math.ceil(length / now)
    mine = range(length)[rank * new : (rank + 1) * new]
    found = []
    for file, numbers in itertools.groupby(mine, key=lambda i: i // old):
        numbers = list(numbers)
        found.append((file, numbers[0] % old, numbers[-1] % old + 1))
    return found

# %% right · a walk from file to file, lists for tuples
def parts_to_read(length, before, now, rank):
    old, new = (length + before - 1) // before, (length + now - 1) // now
    place, end, found = rank * new, min(length, rank * new + new), []
    while place < end:
        file, start = divmod(place, old)
        count = min(old - start, end - place)
        found.append([file, start, start + count])
        place += count
    return found

# %% right · PyTorch cuts
def parts_to_read(length, before, now, rank):
    whole = torch.arange(length)
    def cut(n):
        each = -(-length // n)
        return [whole[k * each : (k + 1) * each] for k in range(n)]
    mine, found = set(cut(now)[rank].tolist()), []
    for file, part in enumerate(cut(before)):
        inside = [i for i, x in enumerate(part.tolist()) if x in mine]
        if inside:
            found.append((file, inside[0], inside[-1] + 1))
    return found

# %% wrong · from the beginning of the whole tensor
# -             parts.append((file, first - file * old, last - file * old))
# +             parts.append((file, first, last))

# %% wrong · Leave them out
# -         if first < last:
# +         if first >= last:
# +             parts.append((file, 0, 0))
# +         else:

# %% wrong · padding is read
# -     begin, end = min(rank * new, length), min((rank + 1) * new, length)
# +     begin, end = rank * new, (rank + 1) * new

# %% wrong · ceil(length / now) numbers
# -     old, new = -(-length // before), -(-length // now)
# +     old, new = -(-length // before), length // now

# %% wrong · the third number is the end
# -             parts.append((file, first - file * old, last - file * old))
# +             parts.append((file, first - file * old, last - first))

# %% wrong · They have ceil(length / before) numbers
# -     old, new = -(-length // before), -(-length // now)
# +     old, new = max(1, length // before), -(-length // now)
# -     for file in range(before):
# +     for file in range(length):

# %% wrong · A new part may lie in several files
# -             parts.append((file, first - file * old, last - file * old))
# +             return [(file, first - file * old, last - file * old)]

# %% wrong · each rank reads the file of its own number
def parts_to_read(length, before, now, rank):
    each = -(-length // before)
    end = min(each, length - rank * each)
    return [(rank, 0, end)] if rank < before and end > 0 else []

# %% wrong · the whole files are read
# -             parts.append((file, first - file * old, last - file * old))
# +             parts.append((file, 0, min(old, length - file * old)))

# %% wrong · before and now are exchanged
# -     old, new = -(-length // before), -(-length // now)
# +     before, now = now, before
# +     if rank >= now:
# +         return []
# +     old, new = -(-length // before), -(-length // now)

# %% wrong · one too small
# -             parts.append((file, first - file * old, last - file * old))
# +             parts.append((file, first - file * old, last - file * old - 1))

# %% wrong · the order is turned round
# -     return parts
# +     return parts[::-1]

# %% wrong · a list of triples
# -     return parts
# +     return parts[0] if parts else None
