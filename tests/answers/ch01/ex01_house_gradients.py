# %% right · by hand
def house_gradients(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return 2 * d * x1, 2 * d * x2, 2 * d

# %% right · by autograd
def house_gradients(x1, x2, price, w1, w2, b):
    leaves = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in (w1, w2, b)]
    loss = (x1 * leaves[0] + x2 * leaves[1] + leaves[2] - price) ** 2
    loss.backward()
    return [leaf.grad for leaf in leaves]

# %% wrong · gradient of w1: expected -9, got -4.5 each is half of what it should be
# -     slope = 2 * (x1 * w1 + x2 * w2 + b - price)
# +     slope = x1 * w1 + x2 * w2 + b - price

# %% wrong · without `return`
# -     return slope * x1, slope * x2, slope

# %% wrong · the three numbers alone
# -     return slope * x1, slope * x2, slope
# +     return {"a": slope * x1, "b": slope * x2, "c": slope}

# %% wrong · house 1; use the arguments
def house_gradients(x1, x2, price, w1, w2, b):
    return -115.836, -38.612, -19.306

# %% wrong · b is missing
# -     slope = 2 * (x1 * w1 + x2 * w2 + b - price)
# +     slope = 2 * (x1 * w1 + x2 * w2 - price)
