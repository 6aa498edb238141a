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

# %% wrong · or of any
# -     squares = torch.stack([x.square().sum() for pair in pairs for x in pair])
# +     if not sum(map(len, weights)):
# +         return
# +     squares = torch.stack([x.square().sum() for pair in pairs for x in pair])

# %% wrong · depends on the rank's own numbers
# -         is_positive = of_weight > 0 and of_gradient > 0
# +         is_positive = w.norm() > 0 and g.norm() > 0

# %% wrong · gives w other memory
# -         w -= rate * (of_weight / of_gradient if is_positive else 1.0) * g
# +         w.data = w - rate * (of_weight / of_gradient if is_positive else 1.0) * g

# %% wrong · only after request.wait()
# -     dist.all_reduce(squares, group=group)
# +     dist.all_reduce(squares, group=group, async_op=True)

# %% wrong · into the very tensor that it is given
# -     dist.all_reduce(squares, group=group)
# +     dist.all_reduce(squares.clone(), group=group)

# %% wrong · whatever its length
def take_lars_step(weights, gradients, rate, group=None):
    parts = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, (weights, gradients), group=group)
    for k, (w, g) in enumerate(zip(weights, gradients)):
        a, b = (torch.cat([part[at][k] for part in parts]).norm() for at in (0, 1))
        w -= rate * (a / b if a > 0 and b > 0 else 1.0) * g

# %% wrong · something is added to the norm
# -         w -= rate * (of_weight / of_gradient if is_positive else 1.0) * g
# +         w -= rate * (of_weight / (of_gradient + 1e-8) if is_positive else 1.0) * g

# %% wrong · the largest norm that a rank has
# -     dist.all_reduce(squares, group=group)
# +     dist.all_reduce(squares, dist.ReduceOp.MAX, group=group)

# %% wrong · sums of absolute values
# -     squares = torch.stack([x.square().sum() for pair in pairs for x in pair])
# +     squares = torch.stack([x.abs().sum() for pair in pairs for x in pair])
# -     norms = squares.sqrt().view(-1, 2)
# +     norms = squares.view(-1, 2)

# %% wrong · the first layer for all layers
# -     norms = squares.sqrt().view(-1, 2)
# +     norms = squares.sqrt().view(-1, 2)[:1].expand(len(pairs), 2)

# %% wrong · the rate is missing
# -         w -= rate * (of_weight / of_gradient if is_positive else 1.0) * g
# +         w -= (of_weight / of_gradient if is_positive else 1.0) * g
