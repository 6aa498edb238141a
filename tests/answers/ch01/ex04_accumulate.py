# %% right · numbers are added up
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(targets) for _, targets in micro_batches), 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * (len(targets) / n)
        loss.backward()
        total += loss.item()
    return total

# %% right · without backward()
def accumulate(model, loss_fn, micro_batches):
    parameters = list(model.parameters())
    samples = sum(len(inputs) for inputs, _ in micro_batches)
    mean, mean_loss = [torch.zeros_like(p) for p in parameters], 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets)
        share = len(inputs) / samples
        mean = [m + share * g for m, g in zip(mean, torch.autograd.grad(loss, parameters))]
        mean_loss += share * float(loss)
    for parameter, gradient in zip(parameters, mean):
        parameter.grad = gradient
    return mean_loss

# %% wrong · mean of means
# -         loss = loss_fn(model(inputs), targets) * len(targets) / samples
# +         loss = loss_fn(model(inputs), targets) / len(micro_batches)

# %% wrong · the sum over all samples
# -         loss = loss_fn(model(inputs), targets) * len(targets) / samples
# +         loss = loss_fn(model(inputs), targets) * len(targets)

# %% wrong · earlier step
# -     model.zero_grad()

# %% wrong · calls backward
# -         loss.backward()

# %% wrong · when every graph is there
# -         loss.backward()
# -         losses.append(loss.detach())
# +         losses.append(loss)
# +     sum(losses).backward()

# %% wrong · put together
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    inputs, targets = (torch.cat(parts) for parts in zip(*micro_batches))
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    return loss.item()

# %% wrong · mean of means
# -         losses.append(loss.detach())
# +         losses.append(loss.detach() * samples / len(targets) / len(micro_batches))

# %% wrong · the sum over all samples
# -         losses.append(loss.detach())
# +         losses.append(loss.detach() * samples)

# %% wrong · you return the last term; add them up
# -     return float(sum(losses))  # float() waits for a GPU: once, not in each micro-batch
# +     return float(loss)

# %% wrong · the mean loss of the last micro-batch
# -     return float(sum(losses))  # float() waits for a GPU: once, not in each micro-batch
# +     return float(loss) * samples / len(targets)

# %% wrong · holds their graphs
# -         losses.append(loss.detach())
# -     return float(sum(losses))  # float() waits for a GPU: once, not in each micro-batch
# +         losses.append(loss)
# +     return sum(losses)

# %% wrong · return the mean loss
# -     return float(sum(losses))  # float() waits for a GPU: once, not in each micro-batch
# +     return 0.0

# %% wrong · but its graph lives on
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    samples, mean = sum(len(targets) for _, targets in micro_batches), 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(targets) / samples
        loss.backward(retain_graph=True)
        mean = mean + loss
    return mean.item()
