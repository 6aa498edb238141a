# %% right · in three parts
def moved_bias(bias, loads, rate):
    mean = loads.float().mean()
    return bias - rate * (loads > mean).to(bias) + rate * (loads < mean).to(bias)

# %% right · with whole numbers
def moved_bias(bias, loads, rate):
    return bias + rate * torch.sign(loads.sum() - loads * len(loads))

# %% wrong · even more attractive
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return bias + rate * (loads - loads.mean()).sign().to(bias)

# %% wrong · only its sign counts
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return bias - rate * (loads - loads.mean()).to(bias)

# %% wrong · not with their median
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return bias - rate * (loads - loads.median()).sign().to(bias)

# %% wrong · it adds up over the steps
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return -rate * (loads - loads.mean()).sign().to(bias)

# %% wrong · keeps its bias
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return torch.where(loads > loads.mean(), bias - rate, bias + rate)

# %% wrong · go up as well
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     return bias - rate * (loads > loads.mean())

# %% wrong · loads are whole numbers, and have no mean
def moved_bias(bias, loads, rate):
    return bias - rate * (loads - loads.mean()).sign()

# %% wrong · leave it as it is
# -     return bias - rate * (loads - loads.mean()).sign().to(bias)
# +     bias -= rate * (loads - loads.mean()).sign().to(bias)
# +     return bias

# %% wrong · the mean need not be a whole number
def moved_bias(bias, loads, rate):
    return bias - rate * (loads - loads.sum() // len(loads)).sign()

# %% wrong · the mean need not be a whole number
def moved_bias(bias, loads, rate):
    return bias - rate * (loads - loads.double().mean().round()).sign()

# %% wrong · keeps its dtype
def moved_bias(bias, loads, rate):
    loads = loads.double()
    return bias.double() - rate * (loads - loads.mean()).sign()

# %% wrong · expected
def moved_bias(bias, loads, rate):
    loads = loads.bfloat16()
    return bias - rate * (loads - loads.mean()).sign().to(bias)
