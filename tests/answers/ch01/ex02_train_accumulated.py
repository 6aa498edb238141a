# %% right · scaled losses
# -         loss = loss_fn(model(inputs), targets)
# -         (loss / every).backward()
# +         (loss_fn(model(inputs), targets) / every).backward()

# %% right · scaled gradients
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        optimizer.zero_grad(set_to_none=False)
        for inputs, targets in micro_batches[first : first + every]:
            loss_fn(model(inputs), targets).backward()
        for parameter in model.parameters():
            parameter.grad /= every
        optimizer.step()

# %% wrong · one backward for each micro-batch
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        some = micro_batches[first : first + every]
        sum(loss_fn(model(inputs), targets) / every for inputs, targets in some).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · one backward for each micro-batch
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for first in range(0, len(micro_batches), every):
        inputs, targets = map(torch.cat, zip(*micro_batches[first : first + every]))
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

# %% wrong · the gradients are summed
# -         (loss / every).backward()
# +         loss.backward()

# %% wrong · divided by `every`: zero_grad()
# -     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +         optimizer.zero_grad()

# %% wrong · nothing has moved: is there a backward()
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    pass

# %% wrong · you clear before the step
def train_accumulated(model, loss_fn, micro_batches, optimizer, every):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(model(inputs), targets)
        (loss / every).backward()
        if number % every == 0:
            optimizer.zero_grad()
            optimizer.step()

# %% wrong · belong together
# -         (loss / every).backward()
# +         (loss / every).backward()
# +         optimizer.step()
# -             optimizer.step()
