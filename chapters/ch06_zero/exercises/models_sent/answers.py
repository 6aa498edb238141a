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

# %% wrong · without `return`
def models_sent(stage, n, micro_batches=1):
    (n - 1) / n
