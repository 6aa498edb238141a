# %% right · the solution
def bubble(stages, microbatches):
    idle = stages - 1
    return idle / (microbatches + idle), idle / microbatches

# %% right · a list of fractions
def bubble(stages, microbatches):
    from fractions import Fraction
    share = Fraction(stages - 1, microbatches + stages - 1)
    return [share, share / (1 - share)]

# %% right · simulated
def bubble(stages, microbatches):
    work = stages * microbatches
    whole = stages * (microbatches + stages - 1)
    return (whole - work) / whole, (whole - work) / work

# %% wrong · the two are swapped
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle / microbatches, idle / (microbatches + idle)

# %% wrong · this is the share of the whole once more
def bubble(stages, microbatches):
    share = (stages - 1) / (microbatches + stages - 1)
    return share, share

# %% wrong · this is idle time over the ideal, the second
def bubble(stages, microbatches):
    return ((stages - 1) / microbatches,) * 2

# %% wrong · but not for itself
def bubble(stages, microbatches):
    return stages / (microbatches + stages), stages / microbatches

# %% wrong · work and idle time together
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages), (stages - 1) / microbatches

# %% wrong · the 2 is above and below
# -     idle = stages - 1
# +     idle = 2 * (stages - 1)

# %% wrong · it works for microbatches turns of each
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1), 2 * (stages - 1) / microbatches

# %% wrong · the 3 is above and below
def bubble(stages, microbatches):
    return 3 * (stages - 1) / (microbatches + stages - 1), (stages - 1) / microbatches

# %% wrong · microbatches of them: the 3 is above
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1), 3 * (stages - 1) / microbatches

# %% wrong · divided by the number of stages
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1), (stages - 1) / stages

# %% wrong · how much of the time the ranks are busy
def bubble(stages, microbatches):
    return microbatches / (microbatches + stages - 1), (stages - 1) / microbatches

# %% wrong · how many times as long
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle / (microbatches + idle), (microbatches + idle) / microbatches

# %% wrong · asked is the number: 0.25, not 25
# -     return idle / (microbatches + idle), idle / microbatches
# +     return 100 * idle / (microbatches + idle), 100 * idle / microbatches

# %% wrong · cuts off what comes after the point
# -     return idle / (microbatches + idle), idle / microbatches
# +     return idle // (microbatches + idle), idle // microbatches

# %% wrong · it seems to be rounded
# -     return idle / (microbatches + idle), idle / microbatches
# +     return round(idle / (microbatches + idle), 2), round(idle / microbatches, 2)

# %% wrong · return the two numbers alone
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)

# %% wrong · without a pipeline
def bubble(stages, microbatches):
    return (stages - 1) / stages, stages - 1

# %% wrong · one stage alone has no bubble
# -     return idle / (microbatches + idle), idle / microbatches
# +     return 1 / (1 + microbatches / idle), idle / microbatches
