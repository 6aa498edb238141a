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

# %% wrong · norms 8.97, 15.69, 21.81, 28.72, 35.24; in one
# -         optimizer.zero_grad()

# %% wrong · it is cleared after backward() has put it there
# -         optimizer.zero_grad()

# -         loss.backward()  # the gradients are averaged here
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
# -         loss.backward()  # the gradients are averaged here
# -         optimizer.step()
# +         loss.backward()

# %% wrong · between the forward and the backward
# -         optimizer.zero_grad()
# +         optimizer.step()
# +         optimizer.zero_grad()
# -         loss.backward()  # the gradients are averaged here
# -         optimizer.step()
# +         loss.backward()

# %% wrong · the loss has no graph
# - ddp(inputs), targets)
# + inputs, targets)
