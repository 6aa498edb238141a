# %% right · cleared after the step, to zeros
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        loss_fn(ddp(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

# %% right · cleared through the model, before the forward
def train_steps(ddp, loss_fn, optimizer, batches):
    for inputs, targets in batches:
        ddp.zero_grad()
        outputs = ddp(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        optimizer.step()

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

# %% wrong · nothing sets the gradients back
# -         optimizer.zero_grad()

# %% wrong · it is cleared after backward() has put it there
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp(inputs), targets)
# +         loss.backward()
# -         loss.backward()  # the gradients are averaged here

# %% wrong · both belong into the loop
# -         optimizer.step()
# +     optimizer.step()

# %% wrong · is divided by the number of ranks once more
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp(inputs), targets) / dist.get_world_size()

# %% wrong · times too large
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(ddp(inputs), targets) * dist.get_world_size()

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

# %% wrong · of the outputs, their sum
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = ddp(inputs).sum()

# %% wrong · of the outputs, their mean
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = ddp(inputs).mean()
