# %% right · cleared after the step, to zeros
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        loss_fn(ddp(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

# %% right · cleared by hand
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        for parameter in ddp.parameters():
            parameter.grad = None
        loss_fn(ddp.forward(inputs), targets).backward()
        optimizer.step()

# %% right · averaged by hand, without the wrapper
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(ddp.module(inputs), targets).backward()
        for parameter in ddp.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()

# %% wrong · `batch` is a pair
# -         inputs, targets = batch
# -         loss = loss_fn(ddp(inputs), targets)
# -         optimizer.zero_grad()
# +         loss = ddp(batch)

# %% wrong · What is to become smaller is one number
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = ddp(inputs)

# %% wrong · the model takes the inputs alone
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp(inputs, targets), targets)

# %% wrong · norms 8.97, 15.69, 21.81, 28.72, 35.24; in one
# -         optimizer.zero_grad()

# %% wrong · it is cleared after backward() has put it there
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp(inputs), targets)
# +         loss.backward()
# -         loss.backward()  # the gradients are averaged here

# %% wrong · expected 5 optimizer steps, got 1 each batch
# -         optimizer.step()
# +     optimizer.step()

# %% wrong · only for a forward through the wrapped model
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp.module(inputs), targets)

# %% wrong · before the backward of its batch
def train_steps(ddp, loss_fn, optimizer, batches):
    for batch in batches:
        optimizer.step()
        optimizer.zero_grad()
        inputs, targets = batch
        loss = loss_fn(ddp(inputs), targets)
        loss.backward()

# %% wrong · between the forward and the backward
def train_steps(ddp, loss_fn, optimizer, batches):
    for batch in batches:
        inputs, targets = batch
        loss = loss_fn(ddp(inputs), targets)
        optimizer.step()
        optimizer.zero_grad()
        loss.backward()

# %% wrong · the loss has no graph
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(inputs, targets)
