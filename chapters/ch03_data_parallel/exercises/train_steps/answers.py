# %% right · cleared by hand
# -         optimizer.zero_grad()
# +         for parameter in ddp.parameters():
# +             parameter.grad = None

# %% right · averaged by hand, without the wrapper
# - ddp(inputs), targets)
# + ddp.module(inputs), targets)
# -         optimizer.step()
# +         for parameter in ddp.parameters():
# +             dist.all_reduce(parameter.grad)
# +             parameter.grad /= dist.get_world_size()
# +         optimizer.step()

# %% wrong · `batch` is a pair
# - loss_fn(ddp(inputs), targets)
# + ddp(batch)

# %% wrong · What is to become smaller is one number
# - loss_fn(ddp(inputs), targets)
# + ddp(inputs)

# %% wrong · the model takes the inputs alone
# - ddp(inputs), targets)
# + ddp(inputs, targets), targets)

# %% wrong · follows the gradients of all steps before
# -         optimizer.zero_grad()

# %% wrong · it is cleared after backward() has put it there
# -         optimizer.zero_grad()

# -         loss.backward()
# +         loss.backward()
# +         optimizer.zero_grad()

# %% wrong · expected 5 optimizer steps, got 1 each batch has its backward
# -         optimizer.step()
# +     optimizer.step()

# %% wrong · only for a forward through the wrapped model
# - ddp(inputs), targets)
# + ddp.module(inputs), targets)

# %% wrong · before the backward of its batch
# -         inputs, targets = batch
# +         optimizer.step()
# +         inputs, targets = batch
# -         loss.backward()
# -         optimizer.step()
# +         loss.backward()

# %% wrong · between the forward and the backward
# -         optimizer.zero_grad()
# +         optimizer.step()
# +         optimizer.zero_grad()
# -         loss.backward()
# -         optimizer.step()
# +         loss.backward()

# %% wrong · the loss has no graph
# - ddp(inputs), targets)
# + inputs, targets)

# %% wrong · here they are turned round
# - ddp(inputs), targets)
# + targets, ddp(inputs))

# %% wrong · this is the mean squared error
# - loss_fn(ddp(inputs), targets)
# + ((ddp(inputs) - targets) ** 2).mean()

# %% wrong · the list that was given had 5 entries, and has 0 now
def train_steps(ddp, loss_fn, optimizer, batches):
    while batches:
        inputs, targets = batches.pop(0)
        loss = loss_fn(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %% wrong · it belongs to the caller
# -         optimizer.step()
# +         optimizer.step()
# +         targets.zero_()

# %% wrong · that optimizer has to take the steps
# -         optimizer.step()
# +         with torch.no_grad():
# +             for parameter in ddp.parameters():
# +                 parameter -= 0.01 * parameter.grad

# %% wrong · got none that optimizer has
# -         optimizer.step()
# +         torch.optim.SGD(ddp.parameters(), lr=0.01).step()

# %% wrong · the model is in another mode than before
# -         optimizer.step()
# +         optimizer.step()
# +         ddp.eval()
