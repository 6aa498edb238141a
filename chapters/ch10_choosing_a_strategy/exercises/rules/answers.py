# %% right · sums of what equals
def rules(counts, edges):
    found = []
    for u in range(len(counts)):
        found.append(({(u, i): 1 for i in range(counts[u])}, 1))
    for u, v in edges:
        for i in range(counts[u]):
            row = {(u, i, v, j): -1 for j in range(counts[v])}
            row[u, i] = 1
            found.append((row, 0))
        for j in range(counts[v]):
            row = {(u, i, v, j): 2.0 for i in range(counts[u])}
            row[v, j] = -2.0
            found.append((row, 0.0))
    return found

# %% right · one way less, as one pair is chosen
def rules(counts, edges):
    def one_of(variables):
        return dict.fromkeys(variables, 1), 1

    yield from (one_of([(u, i) for i in range(n)]) for u, n in enumerate(counts))
    for u, v in edges:
        yield one_of([(u, i, v, j) for i in range(counts[u]) for j in range(counts[v])])
        for i in range(1, counts[u]):
            yield {(u, i): -1} | {(u, i, v, j): 1 for j in range(counts[v])}, 0
        for j in range(1, counts[v]):
            yield {(v, j): -1} | {(u, i, v, j): 1 for i in range(counts[u])}, 0

# %% wrong · nothing ties it to its operators
def rules(counts, edges):
    found = [({(u, i): 1 for i in range(n)}, 1) for u, n in enumerate(counts)]
    for u, v in edges:
        pairs = {(u, i, v, j): 1 for i in range(counts[u]) for j in range(counts[v])}
        found.append((pairs, 1))
    return found

# %% wrong · the second one has to agree
# -         for j in range(counts[v]):
# -             both = {(u, i, v, j): 1 for i in range(counts[u])}
# -             equations.append((both | {(v, j): -1}, 0))

# %% wrong · the first one has to agree
# -         for i in range(counts[u]):
# -             both = {(u, i, v, j): 1 for j in range(counts[v])}
# -             equations.append((both | {(u, i): -1}, 0))

# %% wrong · no pair of an edge is 1
# -     for u, v in edges:
# -         for i in range(counts[u]):
# -             both = {(u, i, v, j): 1 for j in range(counts[v])}
# -             equations.append((both | {(u, i): -1}, 0))
# -         for j in range(counts[v]):
# -             both = {(u, i, v, j): 1 for i in range(counts[u])}
# -             equations.append((both | {(v, j): -1}, 0))

# %% wrong · it has to have exactly one
# -     equations = [({(u, i): 1 for i in range(count)}, 1) for u, count in enumerate(counts)]
# +     equations = [({(u, i): 0 for i in range(count)}, 0) for u, count in enumerate(counts)]

# %% wrong · each one has its own equation
# -     equations = [({(u, i): 1 for i in range(count)}, 1) for u, count in enumerate(counts)]
# +     equations = [({(u, i): 1 for u, n in enumerate(counts) for i in range(n)}, 1)]

# %% wrong · of the pairs of an edge exactly one is 1
# -             equations.append((both | {(u, i): -1}, 0))
# +             equations.append((both, 1))

# %% wrong · one of them needs the factor -1
# -             equations.append((both | {(u, i): -1}, 0))
# +             equations.append((both | {(u, i): 1}, 0))

# %% wrong · a pair is 0 if only one of both ways is chosen
def rules(counts, edges):
    found = [({(u, i): 1 for i in range(n)}, 1) for u, n in enumerate(counts)]
    for u, v in edges:
        for i in range(counts[u]):
            for j in range(counts[v]):
                found.append(({(u, i, v, j): 2, (u, i): -1, (v, j): -1}, 0))
    return found

# %% wrong · an equation is a pair
# -     return equations
# +     return [of for of, _ in equations]

# %% wrong · counts may differ
# -         for j in range(counts[v]):
# -             both = {(u, i, v, j): 1 for i in range(counts[u])}
# +         for j in range(counts[u]):
# +             both = {(u, i, v, j): 1 for i in range(counts[u])}

# %% wrong · only operators that an edge joins
# -     for u, v in edges:
# +     for u, v in zip(range(len(counts)), range(1, len(counts))):

# %% wrong · each edge has its own equations
# -     for u, v in edges:
# +     for u, v in dict(edges).items():

# %% wrong · each operator stands before its way
# -             both = {(u, i, v, j): 1 for j in range(counts[v])}
# +             both = {(u, v, i, j): 1 for j in range(counts[v])}

# %% wrong · its ways are 0 to 1
# -     equations = [({(u, i): 1 for i in range(count)}, 1) for u, count in enumerate(counts)]
# +     equations = [({(u, i): 1 for i in range(max(counts))}, 1) for u in range(len(counts))]

# %% wrong · how large is their sum
# -     equations = [({(u, i): 1 for i in range(count)}, 1) for u, count in enumerate(counts)]
# +     equations = [({(u, i): 1 for i in range(count)}, count) for u, count in enumerate(counts)]

# %% wrong · and not with 1
# -             both = {(u, i, v, j): 1 for j in range(counts[v])}
# -             equations.append((both | {(u, i): -1}, 0))
# +             both = {(u, i, v, j): 1 for j in range(counts[v])}
# +             equations.append((both | {(u, i): -1}, 1))
