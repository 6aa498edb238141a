# %% right · a table of stages
def models_sent(stage, n, micro_batches=1):
    once = (n - 1) / n
    return once * {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}[stage]

# %% right · written out
def models_sent(stage, n, micro_batches=1):
    from fractions import Fraction

    half = Fraction(n - 1, n)
    if stage < 2:
        return 2 * half
    return half + micro_batches * half if stage == 2 else micro_batches * 3 * half

# %% wrong · only the last backward of a step sends
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2 * micro_batches, 2, micro_batches + 1, 3 * micro_batches][stage]

# %% wrong · an all-reduce is a reduce-scatter and an all-gather
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [1, 2, micro_batches + 1, 3 * micro_batches][stage]

# %% wrong · stage 1 reduces once, and gathers once
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, micro_batches + 1, micro_batches + 1, 3 * micro_batches][stage]

# %% wrong · because nobody keeps them whole until the step
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, 2, 3 * micro_batches][stage]

# %% wrong · The step gathers nothing
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, 2 * micro_batches + 1][stage]

# %% wrong · the backward gathers as well
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, 2 * micro_batches][stage]

# %% wrong · the next micro-batch gathers them anew
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, micro_batches + 2][stage]

# %% wrong · as Gloo does it
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 3, 2 * micro_batches + 1, 4 * micro_batches][stage]

# %% wrong · in a ring a rank sends all chunks but its own
def models_sent(stage, n, micro_batches=1):
    return [2, 2, micro_batches + 1, 3 * micro_batches][stage]

# %% wrong · what all ranks together send
def models_sent(stage, n, micro_batches=1):
    return (n - 1) * [2, 2, micro_batches + 1, 3 * micro_batches][stage]

# %% wrong · one chunk
def models_sent(stage, n, micro_batches=1):
    return [2, 2, micro_batches + 1, 3 * micro_batches][stage] / n

# %% wrong · without `return`
def models_sent(stage, n, micro_batches=1):
    (n - 1) / n
