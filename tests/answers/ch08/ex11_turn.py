# %% right · the solution
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    return Action(kind, group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)

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

# %% wrong · each micro-batch goes through all chunks
def turn(k, ranks, chunks, kind="F"):
    chunk = k % chunks
    return Action(kind, k // chunks, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · what is missing is `ranks` for each group
def turn(k, ranks, chunks, kind="F"):
    chunk = k // ranks % chunks
    return Action(kind, k % ranks, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · the backwards take the chunks in the order
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    return Action(kind, group * ranks + k % ranks, k // ranks)

# %% wrong · only the chunks are the other way round
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    if kind == "B":
        chunk, i = chunks - 1 - chunk, ranks - 1 - i
    return Action(kind, group * ranks + i, chunk)

# %% wrong · the other way round are the chunks
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    return Action(kind, group * ranks + (i if kind == "F" else ranks - 1 - i), chunk)

# %% wrong · the chunk is counted on beyond the last
def turn(k, ranks, chunks, kind="F"):
    group, chunk = k // (ranks * chunks), k // ranks
    return Action(kind, group * ranks + k % ranks, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · begins only `ranks` micro-batches later
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    return Action(kind, group * ranks * chunks + i, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · a group has as many micro-batches as
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, chunks)
    return Action(kind, group * chunks + i, chunk if kind == "F" else ranks - 1 - chunk)

# %% wrong · a micro-batch has more than one turn
def turn(k, ranks, chunks, kind="F"):
    chunk = k // ranks % chunks
    return Action(kind, k, chunk if kind == "F" else chunks - 1 - chunk)

# %% wrong · this is the stage of the model
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    return Action(kind, group * ranks + i, (chunk if kind == "F" else chunks - 1 - chunk) * ranks)

# %% wrong · the argument `kind`
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    chunk, i = divmod(k, ranks)
    return Action("F", group * ranks + i, chunk if kind == "F" else chunks - 1 - chunk)

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
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
    return kind, group * ranks + k % ranks, k // ranks

# %% wrong · `return` the action
def turn(k, ranks, chunks, kind="F"):
    group, k = divmod(k, ranks * chunks)
