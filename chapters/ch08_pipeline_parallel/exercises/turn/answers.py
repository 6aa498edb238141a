# %% right · without divmod
def turn(k, ranks, chunks, kind="F"):
    chunk = k // ranks % chunks
    if kind != "F":
        chunk = chunks - 1 - chunk
    return Action(kind, k // (ranks * chunks) * ranks + k % ranks, chunk)

# %% right · from the whole list
def turn(k, ranks, chunks, kind="F"):
    order = range(chunks) if kind == "F" else reversed(range(chunks))
    one = [(c, i) for c in order for i in range(ranks)]
    chunk, i = one[k % len(one)]
    return Action(kind, k // len(one) * ranks + i, chunk)

# %% wrong · the chunk changes with each action
def turn(k, ranks, chunks, kind="F"):
    group = k // (ranks * chunks)
    chunk = k % chunks
    return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · divide with //
def turn(k, ranks, chunks, kind="F"):
    group = k // (ranks * chunks)
    chunk = k / ranks % chunks
    return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · asked is one action
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    yield Action(kind, group * ranks + k % ranks, k // ranks)

# %% wrong · a pipeline asks for action.kind
# -     return Action(kind, group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)
# +     return kind, group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk

# %% wrong · a function without `return` gives None
# -     return Action(kind, group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · k counts on over all groups
def turn(k, ranks, chunks, kind="F"):
    order = range(chunks) if kind == "F" else reversed(range(chunks))
    return [Action(kind, i, chunk) for chunk in order for i in range(ranks)][k]

# %% wrong · that of turn k alone
def turn(k, ranks, chunks, kind="F"):
    return [Action(kind, i, chunk) for chunk in range(chunks) for i in range(ranks)]
