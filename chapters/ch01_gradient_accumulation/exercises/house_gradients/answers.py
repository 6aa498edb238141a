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

# %% right · finite differences, central
def house_gradients(x1, x2, price, w1, w2, b):
    def loss(w1, w2, b):
        return (x1 * w1 + x2 * w2 + b - price) ** 2
    e = 0.5
    return ((loss(w1 + e, w2, b) - loss(w1 - e, w2, b)) / (2 * e),
            (loss(w1, w2 + e, b) - loss(w1, w2 - e, b)) / (2 * e),
            (loss(w1, w2, b + e) - loss(w1, w2, b - e)) / (2 * e))

# %% right · vectors
import numpy as np
def house_gradients(x1, x2, price, w1, w2, b):
    x = np.array([x1, x2, 1.0])
    return 2 * (x @ np.array([w1, w2, b]) - price) * x

# %% wrong · have changed places
def house_gradients(x1, x2, price, w1, w2, b):
    d = 2 * (x1 * w1 + x2 * w2 + b - price)
    return d * x2, d * x1, d

# %% wrong · has lost its 2
def house_gradients(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return 2 * d * x1, 2 * d * x2, d

# %% wrong · the chain rule goes on
def house_gradients(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return 2 * d * x1, 2 * d * x2, 1

# %% wrong · a parameter like the others
def house_gradients(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return 2 * d * x1, 2 * d * x2, 0

# %% wrong · nearly right
def house_gradients(x1, x2, price, w1, w2, b):
    def loss(w1, w2, b):
        return (x1 * w1 + x2 * w2 + b - price) ** 2
    e = 1e-3
    l = loss(w1, w2, b)
    return (loss(w1 + e, w2, b) - l) / e, (loss(w1, w2 + e, b) - l) / e, (loss(w1, w2, b + e) - l) / e

# %% wrong · nothing is divided by 3
def house_gradients(x1, x2, price, w1, w2, b):
    d = x1 * w1 + x2 * w2 + b - price
    return 2 * d * x1 / 3, 2 * d * x2 / 3, 2 * d / 3

# %% wrong · numbers of the example
def house_gradients(x1, x2, price, w1, w2, b):
    return (-12.0, -6.0, -6.0)

# %% wrong · the price is missing
def house_gradients(x1, x2, price, w1, w2, b):
    d = 2 * (x1 * w1 + x2 * w2 + b)
    return d * x1, d * x2, d

# %% wrong · the step that the optimizer takes
def house_gradients(x1, x2, price, w1, w2, b):
    d = 2 * (x1 * w1 + x2 * w2 + b - price) * 0.001
    return d * x1, d * x2, d

# %% wrong · seems to be rounded
def house_gradients(x1, x2, price, w1, w2, b):
    d = 2 * (x1 * w1 + x2 * w2 + b - price)
    return round(d * x1, 3), round(d * x2, 3), round(d, 3)
