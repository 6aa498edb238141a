# %% right · a list of fractions
def bubble(stages, microbatches):
    from fractions import Fraction
    share = Fraction(stages - 1, microbatches + stages - 1)
    return [share, share / (1 - share)]

# %% right · of all ranks
def bubble(stages, microbatches):
    work = stages * microbatches
    whole = stages * (microbatches + stages - 1)
    return (whole - work) / whole, (whole - work) / work

# %% wrong · the two are swapped
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle / microbatches, idle / (microbatches + idle)

# %% wrong · but not for itself
# -     idle = stages - 1
# +     idle = stages

# %% wrong · asked is the number: 0.25, not 25
# -     return idle / (microbatches + idle), idle / microbatches
# +     return 100 * idle / (microbatches + idle), 100 * idle / microbatches

# %% wrong · it seems to be rounded
# -     return idle / (microbatches + idle), idle / microbatches
# +     return round(idle / (microbatches + idle), 3), round(idle / microbatches, 3)

# %% wrong · return two numbers, and nothing else
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle / (microbatches + idle)

# %% wrong · one stage alone has no bubble
# -     return idle / (microbatches + idle), idle / microbatches
# +     return 1 / (1 + microbatches / idle), idle / microbatches

# %% wrong · return two numbers, and nothing else
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle, idle / (microbatches + idle), idle / microbatches

# %% wrong · return two numbers, and nothing else
# -     return idle / (microbatches + idle), idle / microbatches
# +     return f"{idle / (microbatches + idle):.3f}", f"{idle / microbatches:.3f}"

# %% wrong · it gives the same for all arguments
# -     return idle / (microbatches + idle), idle / microbatches
# +     return 1 / 3, 1 / 2
