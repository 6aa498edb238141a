
# %% right · with Counter
def find_guilty(dumps):
    tables = [{c["number"]: (c["name"], *c["shape"]) for c in dump} for dump in dumps]
    number = max(min(table) if table else 1 for table in tables)
    while True:
        seen = [table.get(number) for table in tables]
        if len(set(seen)) > 1:
            break
        number += 1
    rare = min(set(seen), key=seen.count)
    usual = max(set(seen), key=seen.count)
    rank = seen.index(rare)
    if rare is None:
        return rank, number, LEFT
    return rank, number, (SHAPE if rare[0] == usual[0] else OPERATION)

# %% right · each rank against two others
def find_guilty(dumps):
    def call(rank, number):
        for one in dumps[rank]:
            if one["number"] == number:
                return one["name"], one["shape"]

    n = len(dumps)
    first = max([1] + [dump[0]["number"] for dump in dumps if dump])
    last = max(dump[-1]["number"] for dump in dumps if dump)
    for number in range(first, last + 1):
        for rank in range(n):
            mine, a, b = (call((rank + k) % n, number) for k in range(3))
            if a == b != mine:
                if not mine:
                    return (rank, number, LEFT)
                return (rank, number, OPERATION if mine[0] != a[0] else SHAPE)

# %% right · recursion, as a list
def find_guilty(dumps, number=None):
    if number is None:
        number = max(dump[0]["number"] if dump else 1 for dump in dumps)
    seen = []
    for dump in dumps:
        of = [one for one in dump if one["number"] == number]
        seen.append(of[0] if of else None)
    odd = [k for k, one in enumerate(seen) if seen.count(one) == 1]
    if not odd:
        return find_guilty(dumps, number + 1)
    k = odd[0]
    other = seen[k - 1]
    if seen[k] is None:
        return [k, number, LEFT]
    return [k, number, SHAPE if seen[k]["name"] == other["name"] else OPERATION]

# %% wrong · fewest calls need not be the guilty one
def find_guilty(dumps):
    lengths = [len(dump) for dump in dumps]
    rank = lengths.index(min(lengths))
    last = dumps[rank][-1]["number"] if dumps[rank] else 0
    return rank, last + 1, LEFT

# %% wrong · stopped first need not be the guilty one
def find_guilty(dumps):
    last = [dump[-1]["number"] if dump else 0 for dump in dumps]
    return last.index(min(last)), min(last) + 1, LEFT

# %% wrong · compare calls with the same `number`
def find_guilty(dumps):
    for k in range(max(map(len, dumps))):
        seen = [(d[k]["name"], d[k]["shape"]) if k < len(d) else None for d in dumps]
        for rank, one in enumerate(seen):
            if seen.count(one) == 1:
                usual = seen[rank - 1]
                number = dumps[0][k]["number"]
                if one is None:
                    return rank, number, LEFT
                return rank, number, SHAPE if usual is None or one[0] == usual[0] else OPERATION

# %% wrong · begin with the first number that every rank still has
def find_guilty(dumps):
    tables = [{c["number"]: (c["name"], *c["shape"]) for c in dump} for dump in dumps]
    number = 1
    while len({table.get(number) for table in tables}) == 1:
        number += 1
    seen = [table.get(number) for table in tables]
    rare, usual = min(set(seen), key=seen.count), max(set(seen), key=seen.count)
    if rare is None:
        return seen.index(rare), number, LEFT
    same = usual is None or rare[0] == usual[0]
    return seen.index(rare), number, SHAPE if same else OPERATION

# %% wrong · rank 0 may be the guilty one
# -     rank = next(rank for rank, one in enumerate(seen) if seen.count(one) == 1)
# -     usual = seen[rank - 1]
# +     rank = next(rank for rank, one in enumerate(seen) if one != seen[0])
# +     usual = seen[0]

# %% wrong · equal only if both name and shape are
def find_guilty(dumps):
    tables = [{c["number"]: c["name"] for c in dump} for dump in dumps]
    first = max(min(table, default=1) for table in tables)
    numbers = range(first, max(max(table, default=0) for table in tables) + 1)
    number = next(n for n in numbers if len({table.get(n) for table in tables}) > 1)
    seen = [table.get(number) for table in tables]
    rank = next(k for k, one in enumerate(seen) if seen.count(one) == 1)
    return rank, number, LEFT if seen[rank] is None else OPERATION

# %% wrong · equal only if both name and shape are
def find_guilty(dumps):
    tables = [{c["number"]: c["shape"] for c in dump} for dump in dumps]
    first = max(min(table, default=1) for table in tables)
    numbers = range(first, max(max(table, default=0) for table in tables) + 1)
    number = next(n for n in numbers if len({repr(table.get(n)) for table in tables}) > 1)
    seen = [table.get(number) for table in tables]
    rank = next(k for k, one in enumerate(seen) if seen.count(one) == 1)
    return rank, number, LEFT if seen[rank] is None else SHAPE

# %% wrong · OPERATION means another name
# -     return rank, number, OPERATION if seen[rank][0] != usual[0] else SHAPE
# +     return rank, number, SHAPE if seen[rank][0] != usual[0] else OPERATION

# %% wrong · the last call at which all agree
# -     return rank, number, OPERATION if seen[rank][0] != usual[0] else SHAPE
# +     return rank, number - 1, OPERATION if seen[rank][0] != usual[0] else SHAPE
# -         return rank, number, LEFT
# +         return rank, number - 1, LEFT

# %% wrong · names of the lab
def find_guilty(dumps):
    tables = [{c["number"]: (c["name"], *c["shape"]) for c in dump} for dump in dumps]
    number = max(min(table) if table else 1 for table in tables)
    while len({table.get(number) for table in tables}) == 1:
        number += 1
    seen = [table.get(number) for table in tables]
    rare, usual = min(set(seen), key=seen.count), max(set(seen), key=seen.count)
    if rare is None:
        return seen.index(rare), number, "LEFT"
    return seen.index(rare), number, "SHAPE" if rare[0] == usual[0] else "OPERATION"

# %% wrong · for other arguments it returns a value, and here None
def find_guilty(dumps):
    tables = [{c["number"]: (c["name"], *c["shape"]) for c in dump} for dump in dumps]
    for number in range(max(min(table, default=1) for table in tables), 1000):
        seen = [table.get(number) for table in tables]
        if len(set(seen)) > 1:
            rare, usual = min(set(seen), key=seen.count), max(set(seen), key=seen.count)
            if rare is None:
                return seen.index(rare), number, LEFT
            return seen.index(rare), number, SHAPE if rare[0] == usual[0] else OPERATION
