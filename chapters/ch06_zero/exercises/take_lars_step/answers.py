# %% right · lists of numbers
def take_lars_step(weights, gradients, rate, group=None):
    squares = [x.square().sum().item() for x in [*weights, *gradients]]
    total = torch.tensor(squares, dtype=torch.float64)
    dist.all_reduce(total, group=group)
    for w, g, a, b in zip(weights, gradients, *total.sqrt().chunk(2)):
        ratio = float(a / b) if a > 0 and b > 0 else 1.0
        w.sub_(g, alpha=rate * ratio)

# %% right · a row for each layer, and where
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.zeros(len(weights), 2, dtype=torch.float64)
    for row, pair in zip(squares, zip(weights, gradients)):
        row[0], row[1] = (x @ x for x in pair)
    dist.all_reduce(squares, group=group)
    of_weights, of_gradients = squares.sqrt().unbind(1)
    both = (of_weights > 0) & (of_gradients > 0)
    ratios = torch.where(both, of_weights / of_gradients, torch.ones_like(of_weights))
    for w, g, ratio in zip(weights, gradients, ratios):
        w -= rate * ratio * g

# %% wrong · each rank takes its own ratio
def take_lars_step(weights, gradients, rate, group=None):
    for w, g in zip(weights, gradients):
        a, b = w.norm(), g.norm()
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · norms of parts do not add up
def take_lars_step(weights, gradients, rate, group=None):
    norms = torch.stack([x.norm() for x in [*weights, *gradients]])
    dist.all_reduce(norms, group=group)
    for w, g, a, b in zip(weights, gradients, *norms.chunk(2)):
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · take the root of both sums
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.chunk(2)):
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · the ratio is the other way round
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.sqrt().chunk(2)):
        w -= rate * (b / a if a > 0 and b > 0 else 1.0) * g

# %% wrong · the norm of the weights is this rank's own
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([g.square().sum() for g in gradients])
    dist.all_reduce(squares, group=group)
    for w, g, b in zip(weights, gradients, squares.sqrt()):
        a = w.norm()
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · the mean of the ranks' ratios
def take_lars_step(weights, gradients, rate, group=None):
    pairs = [(w.norm(), g.norm()) for w, g in zip(weights, gradients)]
    ratios = torch.stack([a / b if a > 0 and b > 0 else torch.ones_like(a) for a, b in pairs])
    dist.all_reduce(ratios, group=group)
    for w, g, ratio in zip(weights, gradients, ratios / dist.get_world_size(group)):
        w -= rate * ratio * g

# %% wrong · all layers have the same ratio here
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([sum(x.square().sum() for x in of) for of in (weights, gradients)])
    dist.all_reduce(squares, group=group)
    a, b = squares.sqrt()
    for w, g in zip(weights, gradients):
        w -= rate * a / b * g

# %% wrong · 0 / 0 is nan
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.sqrt().chunk(2)):
        w -= rate * a / b * g

# %% wrong · begins with zeros can move
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.sqrt().chunk(2)):
        w -= rate * a / b.clamp(min=1e-300) * g

# %% wrong · one all-reduce is enough for all layers
def take_lars_step(weights, gradients, rate, group=None):
    for w, g in zip(weights, gradients):
        squares = torch.stack([w.square().sum(), g.square().sum()])
        dist.all_reduce(squares, group=group)
        a, b = squares.sqrt()
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · two numbers per layer are enough
def take_lars_step(weights, gradients, rate, group=None):
    wide = torch.stack([F.pad(x.square(), (0, 9 - len(x))) for x in [*weights, *gradients]])
    dist.all_reduce(wide, group=group)
    for w, g, a, b in zip(weights, gradients, *wide.sum(1).sqrt().chunk(2)):
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · change them in place
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.sqrt().chunk(2)):
        w = w - rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · hand `group` to every call
# -     dist.all_reduce(squares, group=group)
# +     dist.all_reduce(squares)

# %% wrong · only the weights are to change
def take_lars_step(weights, gradients, rate, group=None):
    squares = torch.stack([x.square().sum() for x in [*weights, *gradients]])
    dist.all_reduce(squares, group=group)
    for w, g, a, b in zip(weights, gradients, *squares.sqrt().chunk(2)):
        w -= g.mul_(rate * (a / b if a > 0 and b > 0 else 1.0))
