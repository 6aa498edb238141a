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
# -         loss = loss_fn(model(inputs), targets) * (len(targets) / samples)
# +         loss = loss_fn(model(inputs), targets) / len(micro_batches)

# %% wrong · the sum over all samples
# -         loss = loss_fn(model(inputs), targets) * (len(targets) / samples)
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
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     return float(loss)

# %% wrong · the mean loss of the last micro-batch
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     return float(loss) * samples / len(targets)

# %% wrong · holds their graphs
# -         losses.append(loss.detach())
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +         losses.append(loss)
# +     return sum(losses)

# %% wrong · return the mean loss
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
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

# %% right · backward with a gradient argument
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad(set_to_none=False)
    n, mean = sum(t.shape[0] for _, t in micro_batches), 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets)
        share = targets.shape[0] / n
        loss.backward(torch.full_like(loss, share))
        mean += share * loss.detach()
    return float(mean)

# %% right · divided afterwards
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = 0, 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(targets)
        loss.backward()
        n += len(targets)
        total += loss.item()
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p.grad.div_(n)
    return total / n

# %% wrong · belongs to the caller
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(t) for _, t in micro_batches), 0.0
    while micro_batches:
        inputs, targets = micro_batches.pop(0)
        loss = loss_fn(model(inputs), targets) * len(targets) / n
        loss.backward()
        total += loss.item()
    return total

# %% wrong · it returned a text
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     return f"{float(sum(losses))}"

# %% wrong · it returned a text
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     return f"{float(sum(losses)):.6f}"

# %% wrong · what costs time
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(t) for _, t in micro_batches), 0.0
    for inputs, targets in micro_batches:
        for i in range(len(targets)):
            loss = loss_fn(model(inputs[i : i + 1]), targets[i : i + 1]) / n
            loss.backward()
            total += loss.item()
    return total

# %% wrong · what costs time
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(t) for _, t in micro_batches), 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(targets) / n / 2
        loss.backward(retain_graph=True)
        loss.backward()
        total += 2 * loss.item()
        del loss
    return total

# %% wrong · takes a step here
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(t) for _, t in micro_batches), 0.0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(targets) / n
        loss.backward()
        total += loss.item()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
    return total

# %% wrong · leave the model as it was
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    n, total = sum(len(t) for _, t in micro_batches), 0.0
    model.eval()
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) * len(targets) / n
        loss.backward()
        total += loss.item()
    return total

# %% wrong · backward() has run
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     result = float(sum(losses))
# +     model.zero_grad()
# +     return result

# %% wrong · how many numbers the inputs have
# -     samples = sum(len(targets) for _, targets in micro_batches)
# +     samples = sum(inputs.numel() for inputs, _ in micro_batches)

# %% wrong · are left out
def accumulate(model, loss_fn, micro_batches):
    model.zero_grad()
    size = len(micro_batches[0][1])
    full = [m for m in micro_batches if len(m[1]) == size]
    total = 0.0
    for inputs, targets in full:
        loss = loss_fn(model(inputs), targets) / len(full)
        loss.backward()
        total += loss.item()
    return total

# %% wrong · return the mean loss
# -     total = sum(loss.double() for loss in losses)  # in bfloat16, a long sum would stand still
# -     return float(total)  # waits for a GPU: once, not in each micro-batch
# +     return losses
