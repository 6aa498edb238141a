# %% right · by time
def efficiency(ranks, samples, seconds):
    n0, s0, t0 = min(zip(ranks, samples, seconds))
    return [t0 / t * (s / s0) / (n / n0) for n, s, t in zip(ranks, samples, seconds)]

# %% right · as tensors
def efficiency(ranks, samples, seconds):
    ranks, samples, seconds = (torch.tensor(x).double() for x in (ranks, samples, seconds))
    figure = samples / seconds / ranks
    return figure / figure[ranks.argmin()]

# %% right · as a tuple, from sorted measurements
def efficiency(ranks, samples, seconds):
    (n0, s0, t0), *_ = sorted(zip(ranks, samples, seconds))
    return tuple((s * n0 * t0) / (s0 * n * t) for n, s, t in zip(ranks, samples, seconds))

# %% wrong · keeps only one of them
def efficiency(ranks, samples, seconds):
    found = {n: s / (n * t) for n, s, t in zip(ranks, samples, seconds)}
    return tuple(found[n] / found[min(found)] for n in ranks)

# %% wrong · one ratio for each measurement
def efficiency(ranks, samples, seconds):
    found = {n: s / (n * t) for n, s, t in zip(ranks, samples, seconds)}
    return [found[n] / found[min(ranks)] for n in dict.fromkeys(ranks)]

# %% wrong · it seems to be rounded
def efficiency(ranks, samples, seconds):
    each = [s / t / n for n, s, t in zip(ranks, samples, seconds)]
    return [round(one / each[ranks.index(min(ranks))], 6) for one in each]

# %% wrong · this is the speed-up
def efficiency(ranks, samples, seconds):
    rates = [s / t for s, t in zip(samples, seconds)]
    return [rate / rates[ranks.index(min(ranks))] for rate in rates]

# %% wrong · as if the first measurement had 1 rank
def efficiency(ranks, samples, seconds):
    rates = [s / t for s, t in zip(samples, seconds)]
    return [rate / rates[ranks.index(min(ranks))] / n for rate, n in zip(rates, ranks)]

# %% wrong · right for strong scaling alone
def efficiency(ranks, samples, seconds):
    first = ranks.index(min(ranks))
    return [seconds[first] * ranks[first] / (t * n) for n, t in zip(ranks, seconds)]

# %% wrong · right for weak scaling alone
def efficiency(ranks, samples, seconds):
    first = ranks.index(min(ranks))
    return [seconds[first] / t for t in seconds]

# %% wrong · wherever it stands in the lists
def efficiency(ranks, samples, seconds):
    each = [s / t / n for n, s, t in zip(ranks, samples, seconds)]
    return [one / each[0] for one in each]

# %% wrong · in percent
def efficiency(ranks, samples, seconds):
    each = [s / t / n for n, s, t in zip(ranks, samples, seconds)]
    return [100 * one / each[ranks.index(min(ranks))] for one in each]

# %% wrong · without `return`
def efficiency(ranks, samples, seconds):
    each = [s / t / n for n, s, t in zip(ranks, samples, seconds)]
    [one / each[ranks.index(min(ranks))] for one in each]
