# %% right · two phases
def accumulate_sharded(model, loss_fn, micro_batches):
    *early, (inputs, targets) = micro_batches
    n = len(micro_batches)
    model.set_requires_gradient_sync(False)
    for x, y in early:
        (loss_fn(model(x), y) / n).backward()
    model.set_requires_gradient_sync(True)
    (loss_fn(model(inputs), targets) / n).backward()

# %% right · units stay for the next micro-batch
# -         model.set_requires_gradient_sync(number == count - 1)
# +         is_last = number + 1 == count
# +         for unit in (*model.blocks, model):
# +             unit.set_requires_gradient_sync(is_last, recurse=False)
# +         model.set_reshard_after_backward(is_last)

# %% right · divided at the end
def accumulate_sharded(model, loss_fn, micro_batches):
    left = len(micro_batches)
    for inputs, targets in micro_batches:
        left -= 1
        model.set_requires_gradient_sync(not left)
        loss_fn(model(inputs), targets).backward()
    for p in model.parameters():
        p.grad /= len(micro_batches)

# %% wrong · each micro-batch reduces
# -         model.set_requires_gradient_sync(number == count - 1)

# %% wrong · each micro-batch reduces
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_is_last_backward(number == count - 1)

# %% wrong · the last backward has to reduce
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(False)

# %% wrong · some units reduce in each micro-batch
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == count - 1, recurse=False)

# %% wrong · the micro-batches are summed up
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         loss_fn(model(inputs), targets).backward()

# %% wrong · FSDP2 has averaged over them
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count / dist.get_world_size()).backward()

# %% wrong · as if it were all
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         if number == count - 1:
# +             loss_fn(model(inputs), targets).backward()

# %% wrong · a program that does not accumulate later
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count).backward()
# +     model.set_requires_gradient_sync(False)

# %% wrong · called in place of the model
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model.forward(inputs), targets) / count).backward()

# %% wrong · takes the outputs first
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(targets, model(inputs)) / count).backward()

# %% wrong · one micro-batch at a time
def accumulate_sharded(model, loss_fn, micro_batches):
    inputs, targets = (torch.cat(x) for x in zip(*micro_batches))
    loss_fn(model(inputs), targets).backward()

# %% wrong · one micro-batch at a time
def accumulate_sharded(model, loss_fn, micro_batches):
    losses = [loss_fn(model(inputs), targets) for inputs, targets in micro_batches]
    (sum(losses) / len(losses)).backward()

# %% wrong · one micro-batch at a time
def accumulate_sharded(model, loss_fn, micro_batches):
    losses = [loss_fn(model(inputs), targets) for inputs, targets in micro_batches]
    for number, loss in enumerate(losses):
        model.set_requires_gradient_sync(number == len(losses) - 1)
        (loss / len(losses)).backward()

# %% wrong · set it to True before the last backward
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_reshard_after_backward(False)

# %% wrong · a setting stays until it is changed
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_reshard_after_forward(False)

# %% wrong · a setting stays until it is changed
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_is_last_backward(False)

# %% wrong · the mode is the caller's
# -     count = len(micro_batches)
# +     count = len(model.eval() and micro_batches)

# %% wrong · it belongs to the caller
def accumulate_sharded(model, loss_fn, micro_batches):
    count = len(micro_batches)
    while micro_batches:
        inputs, targets = micro_batches.pop(0)
        model.set_requires_gradient_sync(not micro_batches)
        (loss_fn(model(inputs), targets) / count).backward()

# %% wrong · nothing is asked for besides
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         loss = loss_fn(model(inputs), targets) / count
# +         loss.backward()
# +     return loss.detach()

# %% wrong · It has to be on in the last
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == 0)

# %% wrong · no_sync belongs to DDP
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         with model.no_sync():
# +             (loss_fn(model(inputs), targets) / count).backward()

# %% wrong · only the last loss is divided
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         loss = loss_fn(model(inputs), targets)
# +         (loss / count if number == count - 1 else loss).backward()

# %% wrong · the one before it counts twice
def accumulate_sharded(model, loss_fn, micro_batches):
    count = len(micro_batches)
    model.set_requires_gradient_sync(False)
    for inputs, targets in micro_batches[:-1]:
        (loss_fn(model(inputs), targets) / count).backward()
    model.set_requires_gradient_sync(True)
    (loss_fn(model(inputs), targets) / count).backward()

# %% wrong · and none follows
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count).backward(retain_graph=True)

# %% wrong · is a mean over them already
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count / len(inputs)).backward()
