# %% right · sorted
def clean_checkpoint(saved, every, found):
    for step in sorted(saved, reverse=True):
        if step + every <= found:
            return step

# %% right · by filter
def clean_checkpoint(saved, every, found):
    clean = [step for step in saved if not step > found - every]
    return sorted(clean)[-1]

# %% wrong · without `return`
def clean_checkpoint(saved, every, found):
    max(step for step in saved if step <= found - every)

# %% wrong · the newest checkpoint of all
def clean_checkpoint(saved, every, found):
    return max(saved)

# %% wrong · a variable that nothing has set yet
def clean_checkpoint(saved, every, found):
    newest = None
    for step in saved:
        if step <= found - every and step > (newest or 0):
            newest = step
    return newest

# %% wrong · the nearest one to the good check
def clean_checkpoint(saved, every, found):
    return min(saved, key=lambda step: abs(step - (found - every)))

# %% wrong · need not be evenly spaced
def clean_checkpoint(saved, every, found):
    gap = sorted(saved)[1] - min(saved)
    return (found - every) // gap * gap

# %% wrong · from the very step of the last good check
def clean_checkpoint(saved, every, found):
    return max((step for step in saved if step < found - every), default=0)

# %% wrong · not two
def clean_checkpoint(saved, every, found):
    return max((step for step in saved if step <= found - 2 * every), default=min(saved))

# %% wrong · an index
def clean_checkpoint(saved, every, found):
    return max(k for k, step in enumerate(sorted(saved)) if step <= found - every)
