# %% right · inference mode, and a sum
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +         total = 0.0
# +         with torch.inference_mode():
# +             for x, y in validation:
# +                 total += loss_fn(model(x), y)
# +         means.append(total.item() / len(validation))

# %% right · each graph is freed at once
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = [loss_fn(model(x), y).item() for x, y in validation]

# %% right · eval mode and back, zero_grad before the forward
# -         optimizer.zero_grad()
# -         loss = loss_fn(model(inputs), targets)
# +         loss = loss_fn(model(inputs), targets)
# -         optimizer.step()
# +         optimizer.step()
# +         model.eval()
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         model.train()
# +         optimizer.zero_grad()

# %% right · frozen for the time being
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +         flags = [p.requires_grad for p in model.parameters()]
# +         model.requires_grad_(False)
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# +         for p, flag in zip(model.parameters(), flags):
# +             p.requires_grad_(flag)
# +         means.append(torch.stack(losses).mean().item())

# %% wrong · of which 132,096 are the graph of a forward it grows with the number of steps, and also
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# -     return means
# +     return [float(mean) for mean in means]

# %% wrong · alive at once
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# +         means.append((sum(losses) / len(losses)).item())

# %% wrong · with more steps more is kept
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = [loss_fn(model(x), y).item() for x, y in validation[1:]]
# +         losses.append(loss_fn(model(validation[0][0]), validation[0][1]))
# -     return means
# +     return [float(mean) for mean in means]

# %% wrong · one graph too many
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = []
# +         for x, y in validation:
# +             loss = loss_fn(model(x), y)
# +             losses.append(loss.item())

# %% wrong · no graph is too many
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +             x, targets = zip(*validation)
# +             outputs = model(torch.cat(x)).split([len(part) for part in x])
# +             losses = [loss_fn(*pair).item() for pair in zip(outputs, targets)]

# %% wrong · no_grad() covers the training
# - def train_and_validate(model, loss_fn, batches, validation, optimizer):
# + @torch.no_grad()
# + def train_and_validate(model, loss_fn, batches, validation, optimizer):

# %% wrong · or the model has stayed frozen
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +         model.requires_grad_(False)
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# +         means.append((sum(losses) / len(losses)).item())

# %% wrong · model.eval() lasts
# -         optimizer.step()
# +         optimizer.step()
# +         model.eval()

# %% wrong · autograd is still switched off
# -     for inputs, targets in batches:
# +     for inputs, targets in batches:
# +         torch.set_grad_enabled(True)
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         torch.set_grad_enabled(False)
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# -     return means
# +     return [float(mean) for mean in means]

# %% wrong · what was frozen before
# -         optimizer.step()
# +         optimizer.step()
# +         model.requires_grad_(False)
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         model.requires_grad_(True)

# %% wrong · gradients of its own
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = []
# +         for x, y in validation:
# +             loss = loss_fn(model(x), y)
# +             loss.backward()
# +             losses.append(loss.item())

# %% wrong · validation has added its own
# -     means = []
# +     means = []
# +     optimizer.zero_grad()
# -         optimizer.zero_grad()
# -         loss = loss_fn(model(inputs), targets)
# +         loss = loss_fn(model(inputs), targets)
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = []
# +         for x, y in validation:
# +             loss = loss_fn(model(x), y)
# +             loss.backward()
# +             losses.append(loss.item())

# %% wrong · validation has none
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = []
# +         for x, y in validation:
# +             optimizer.zero_grad()
# +             loss = loss_fn(model(x), y)
# +             loss.backward()
# +             optimizer.step()
# +             losses.append(loss.item())

# %% wrong · sums over the validation
# -         means.append(sum(losses) / len(losses))
# +         means.append(sum(losses))

# %% wrong · in the loop over `batches`
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +     with torch.no_grad():
# +         losses = [loss_fn(model(x), y).item() for x, y in validation]
# +     means.append(sum(losses) / len(losses))

# %% wrong · a list of floats
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +             losses = [loss_fn(model(x), y) for x, y in validation]

# %% wrong · without `return`
# -     return means

# %% right · with weights that are cut off
def train_and_validate(model, loss_fn, batches, validation, optimizer):
    from torch.func import functional_call
    means = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        w = {n: p.detach() for n, p in model.named_parameters()}
        means.append(torch.stack([loss_fn(functional_call(model, w, x), y) for x, y in validation]).mean().item())
    return tuple(means)

# %% right · numpy's floats
def train_and_validate(model, loss_fn, batches, validation, optimizer):
    import numpy as np
    means = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        with torch.no_grad():
            means.append(np.mean([loss_fn(model(x), y).item() for x, y in validation]))
    return means

# %% wrong · there are two lists to look at
# -         with torch.no_grad():
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# +         losses = [loss_fn(model(x), y) for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +         means.append(sum(losses) / len(losses))
# +         del losses
# -     return means
# +     return [float(mean) for mean in means]

# %% wrong · a copy of the model, or gradients of zeros
# -         with torch.no_grad():
# +         import copy
# +         keep = copy.deepcopy(model)
# +         copies = globals().setdefault("copies", []); copies.append(keep)
# +         with torch.no_grad():

# %% wrong · a function with `yield`
def train_and_validate(model, loss_fn, batches, validation, optimizer):
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        with torch.no_grad():
            yield sum(loss_fn(model(x), y).item() for x, y in validation) / len(validation)

# %% wrong · each call begins anew
def train_and_validate(model, loss_fn, batches, validation, optimizer, means=[]):
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        with torch.no_grad():
            means.append(sum(loss_fn(model(x), y).item() for x, y in validation) / len(validation))
    return means

# %% wrong · each validation batch counts by its samples
# -             losses = [loss_fn(model(x), y).item() for x, y in validation]
# -         means.append(sum(losses) / len(losses))
# +             xs, ys = (torch.cat(z) for z in zip(*validation))
# +             means.append(loss_fn(model(xs), ys).item())

# %% wrong · by how many batches the training has
# -         means.append(sum(losses) / len(losses))
# +         means.append(sum(losses) / len(batches))
