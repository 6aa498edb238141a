# %% right · answers in a list
def walk(parameters, layers, memory, gpus, machine=8):
    def plan(dp, tp=1, pp=1, zero=0):
        return {"dp": dp, "tp": tp, "pp": pp, "zero": zero}

    tp = min(machine, gpus)
    asked = [(plan(gpus), 18 * parameters), (plan(gpus, zero=2), (2 + 16 / gpus) * parameters)]
    if parameters < 100_000_000_000:
        asked.append((plan(gpus, zero=3), 18 * parameters / gpus + 2 * parameters / layers))
    for pp in range(1, layers + 1):
        if layers % pp == 0 and gpus % (tp * pp) == 0:
            asked.append((plan(gpus // tp // pp, tp, pp), 18 * parameters / (tp * pp)))
    for found, needs in asked:
        if needs <= memory:
            return found
    raise ValueError("too large")

# %% right · the stages by next
def walk(parameters, layers, memory, gpus, machine=8):
    result = dict(dp=gpus, tp=1, pp=1, zero=0)
    share = parameters / gpus
    if parameters * 18 <= memory:
        return result
    if parameters * 2 + share * 16 <= memory:
        return result | {"zero": 2}
    if parameters / 1e9 < 100 and share * 18 + parameters / layers * 2 <= memory:
        return result | {"zero": 3}
    tp = gpus if gpus < machine else machine
    rest = gpus // tp
    pp = next((k for k in range(1, rest + 1) if layers % k == rest % k == 0
               and 18 * parameters <= memory * tp * k), None)
    if pp is None:
        raise ValueError("no")
    return dict(dp=rest // pp, tp=tp, pp=pp, zero=0)

# %% right · an error of its own kind
def walk(parameters, layers, memory, gpus, machine=8):
    class DoesNotFit(ValueError):
        pass

    if 18 * parameters <= memory:
        return {"zero": 0, "pp": 1, "tp": 1, "dp": gpus}
    if 2 * parameters + 16 * parameters / gpus <= memory:
        return {"zero": 2, "pp": 1, "tp": 1, "dp": gpus}
    small = parameters < 1e11
    if small and 18 * parameters / gpus + 2 * parameters / layers <= memory:
        return {"zero": 3, "pp": 1, "tp": 1, "dp": gpus}
    tp, pp = min(machine, gpus), 1
    while pp <= gpus // tp:
        if not layers % pp and not gpus // tp % pp and 18 * parameters / tp / pp <= memory:
            return {"zero": 0, "pp": pp, "tp": tp, "dp": gpus // tp // pp}
        pp += 1
    raise DoesNotFit

# %% wrong · what fits exactly, fits
# -     if 18 * parameters <= memory:
# +     if 18 * parameters < memory:

# %% wrong · parameters stay whole on each GPU
# -     if (2 + 16 / gpus) * parameters <= memory:
# +     if 18 * parameters / gpus <= memory:

# %% wrong · gradients are shared out, too
# -     if (2 + 16 / gpus) * parameters <= memory:
# +     if (6 + 12 / gpus) * parameters <= memory:

# %% wrong · one whole layer has to fit as well
# -     if parameters < 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:
# +     if parameters < 100e9 and 18 * parameters / gpus <= memory:

# %% wrong · for fewer than 100 billion
# -     if parameters < 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:
# +     if 18 * parameters / gpus + 2 * parameters / layers <= memory:

# %% wrong · are not fewer than 100 billion
# -     if parameters < 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:
# +     if parameters <= 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:

# %% wrong · stages have to divide the layers
# -         is_possible = layers % pp == 0 and gpus % (tp * pp) == 0
# +         is_possible = gpus % (tp * pp) == 0

# %% wrong · divide what tp leaves of the GPUs
# -         is_possible = layers % pp == 0 and gpus % (tp * pp) == 0
# +         is_possible = layers % pp == 0

# %% wrong · need not be a power of 2
# -     for pp in range(1, gpus // tp + 1):
# +     for pp in (1, 2, 4, 8, 16, 32, 64, 128):

# %% wrong · is not always 8
# -     tp = min(machine, gpus)
# +     tp = min(8, gpus)

# %% wrong · fewer GPUs than a machine has
# -     tp = min(machine, gpus)
# +     tp = machine

# %% wrong · then raise a ValueError
# -     raise ValueError("the states fit in no way of the tree: take more GPUs")
# +     return {"dp": gpus // tp, "tp": tp, "pp": 1, "zero": 0}

# %% wrong · asked is a ValueError
# -     raise ValueError("the states fit in no way of the tree: take more GPUs")
# +     raise MemoryError("too large")

# %% wrong · then raise a ValueError
# -     raise ValueError("the states fit in no way of the tree: take more GPUs")
# +     print("too large")

# %% wrong · whole numbers
# -             return {"dp": gpus // (tp * pp), "tp": tp, "pp": pp, "zero": 0}
# +             return {"dp": gpus / (tp * pp), "tp": tp, "pp": pp, "zero": 0}

# %% wrong · under the keys dp, tp, pp and zero
# -     if 18 * parameters <= memory:
# -         return alone | {"zero": 0}
# +     if 18 * parameters <= memory:
# +         return alone

# %% wrong · question 2 is for models of any size
# -     if (2 + 16 / gpus) * parameters <= memory:
# +     if parameters < 100e9 and (2 + 16 / gpus) * parameters <= memory:

# %% wrong · shares may be fractions
# -     if parameters < 100e9 and 18 * parameters / gpus + 2 * parameters / layers <= memory:
# +     if parameters < 100e9 and 18 * parameters / gpus + 2 * (parameters // layers) <= memory:

# %% wrong · tp stays inside of a machine
# -     tp = min(machine, gpus)
# +     tp = gpus

# %% wrong · ask the questions in their order, to the last one
# -     for pp in range(1, gpus // tp + 1):
# +     for pp in range(1, 65):
